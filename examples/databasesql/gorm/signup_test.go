package gorm_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	example "github.com/pgqueue/pgqueue/examples/databasesql/gorm"
	"github.com/pgqueue/pgqueue/examples/databasesql/internal/signuptest"
	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

func service(t *testing.T, prepared bool) (*example.Service, *pgqueuetest.DB) {
	t.Helper()
	database := pgqueuetest.New(t)
	db, err := gorm.Open(postgres.Open(database.URL), &gorm.Config{Logger: logger.Discard, PrepareStmt: prepared})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	if err := db.AutoMigrate(&example.User{}); err != nil {
		t.Fatal(err)
	}
	return &example.Service{DB: db, Jobs: database.Client(t)}, database
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	service, database := service(t, false)
	signuptest.Run(t, database, service.Jobs, service.SignUp)
}

// With PrepareStmt, ConnPool is GORM's own cache of statements around the transaction.
func TestSignUpWithPreparedStatements(t *testing.T) {
	t.Parallel()
	service, database := service(t, true)
	signuptest.Run(t, database, service.Jobs, service.SignUp)
}

func TestAConflictIsTheDriversError(t *testing.T) {
	t.Parallel()
	service, database := service(t, false)
	err := service.DB.Transaction(func(tx *gorm.DB) error {
		var n int64
		if err := tx.Model(&example.User{}).Count(&n).Error; err != nil {
			return err
		}
		signuptest.Conflict(t, database, service.Jobs, "k")
		_, err := service.Jobs.Enqueue(t.Context(), sqltx.On(tx.Statement.ConnPool), welcome.Send{}, pgqueue.WithKey("k"))
		return err
	}, &sql.TxOptions{Isolation: sql.LevelSerializable})
	var conflict *pgconn.PgError
	if !errors.As(err, &conflict) || conflict.Code != "40001" {
		t.Error(err)
	}
}
