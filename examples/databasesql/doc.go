// Package databasesql holds examples for services that reach Postgres through database/sql: with sqlc, GORM or bun. In each of them a
// user and the job that welcomes the user are written by one transaction, so the job exists exactly when the user does.
//
// They are a module of their own, so that their dependencies are not pgqueue's.
package databasesql
