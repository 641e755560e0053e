// Command assets builds console/static from the TypeScript and the styles of this directory, with esbuild's Go API:
//
//	go run .                # write ../static and NOTICE
//	go run . -check         # say what would change, and fail if anything would
//	go run . -tests DIR     # bundle test/*.ts for node --test
//
// It is a module of its own, so that whoever imports pgqueue downloads no esbuild. What is built is committed, so that
// `go install` needs neither Node nor npm. README.md has the rest.
package main
