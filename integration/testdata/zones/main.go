// Command zones says when "30 2 * * *" in Copenhagen is, and whether a zone that does not exist is refused. It is built without cgo and run
// where there is no file at all.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

type report struct{}

func (report) Kind() string { return "report" }

func main() {
	ticks, err := schedule.Preview("30 2 * * *", "Europe/Copenhagen", time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC), 3)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, tick := range ticks {
		fmt.Println(tick.UTC().Format(time.RFC3339))
	}
	pool, err := pgxpool.New(context.Background(), "postgres://app@127.0.0.1:1/app") // never asked
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client, err := pgqueue.NewClient(pool)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, zone := range []string{"Europe/Copenhagen", "Mars/Base"} {
		_, err = schedule.New(client, schedule.Config{Source: "zones", Schedules: []schedule.Schedule{
			{Name: "report", Spec: "30 2 * * *", TimeZone: zone, Args: report{}},
		}})
		fmt.Printf("%s: %v\n", zone, err)
	}
}
