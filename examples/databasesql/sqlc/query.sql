-- name: InsertUser :one
INSERT INTO users (name) VALUES ($1) RETURNING id;

-- name: CountUsers :one
SELECT count(*) FROM users;
