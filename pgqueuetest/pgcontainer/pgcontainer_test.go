package pgcontainer_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/pgqueuetest/pgcontainer"
)

type greet struct{ Name string }

func (greet) Kind() string { return "greet" }

// one is the container of these tests, made as the documentation advises where testcontainers' reaper cannot run.
var one *pgcontainer.Container

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var err error
	if one, err = pgcontainer.Start(ctx, pgcontainer.Options{Image: os.Getenv(pgcontainer.EnvImage), Settings: map[string]string{"fsync": "on"}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := one.Terminate(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestAJobRunsInAContainer(t *testing.T) {
	server, err := pgqueuetest.Use(t.Context(), one.URL())
	if err != nil {
		t.Fatal(err)
	}
	db := server.DB(t)
	client := db.Client(t)
	if _, err := client.Enqueue(t.Context(), db.Pool, greet{"ada"}); err != nil {
		t.Fatal(err)
	}
	var greeted []string
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[greet]) error {
		greeted = append(greeted, job.Args.Name)
		return nil
	})
	pgqueuetest.Drain(t, client, mux)
	if fmt.Sprint(greeted) != "[ada]" {
		t.Error(greeted)
	}
}

func TestWhatIsSaidAboutTheContainer(t *testing.T) {
	if len(one.ID()) < 12 || one.Image() == "" || !strings.Contains(one.ServerVersion(), ".") {
		t.Errorf("image %q, container %q, server %q", one.Image(), one.ID(), one.ServerVersion())
	}
	db, err := pgqueuetest.Use(t.Context(), one.URL())
	if err != nil {
		t.Fatal(err)
	}
	var fsync, version string
	if err := db.DB(t).Pool.QueryRow(t.Context(), "SELECT current_setting('fsync'), current_setting('server_version')").Scan(&fsync, &version); err != nil {
		t.Fatal(err)
	}
	if fsync != "on" || version != one.ServerVersion() {
		t.Errorf("fsync %s, version %s", fsync, version)
	}
}

func TestAnImageThatIsNotThereIsAnError(t *testing.T) {
	_, err := pgcontainer.Start(t.Context(), pgcontainer.Options{Image: "localhost:1/nothing/postgres:18"})
	if err == nil || !strings.Contains(err.Error(), "localhost:1/nothing/postgres:18") {
		t.Fatal(err)
	}
}
