// Package gorm enqueues inside a transaction of GORM.
package gorm

import (
	"context"

	"gorm.io/gorm"

	"github.com/pgqueue/pgqueue/examples/databasesql/welcome"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/sqltx"
)

// User is a row of the application.
type User struct {
	ID   int64
	Name string `gorm:"uniqueIndex"`
}

// Service signs users up.
type Service struct {
	DB   *gorm.DB
	Jobs *pgqueue.Client
}

// SignUp writes the user and the job, or neither: GORM rolls back when the function returns an error. Inside of it, Statement.ConnPool is
// the *sql.Tx that GORM began; what is passed must come from tx, not from s.DB.
func (s *Service) SignUp(ctx context.Context, name string) (id int64, err error) {
	user := User{Name: name}
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&user).Error; err != nil {
			return err
		}
		for range 2 { // a program that asks twice
			_, err := s.Jobs.Enqueue(ctx, sqltx.On(tx.Statement.ConnPool), welcome.Send{UserID: user.ID}, pgqueue.WithKey(name), pgqueue.WithRevision("1"))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return user.ID, err
}
