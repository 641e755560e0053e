package pgqueuetest

import (
	"testing"
)

func TestServerOfItsOwnSurvivesRestarts(t *testing.T) {
	t.Parallel()
	server := NewServer(t, WithSetting("log_statement", "all"), WithDurability())
	db := server.DB(t)
	if got := one[string](t, db.Pool, "SELECT current_setting('log_statement') || current_setting('fsync')"); got != "allon" {
		t.Errorf("settings: %s", got)
	}
	one[int64](t, db.Pool, "SELECT pgqueue.enqueue('kind', '{}')")
	for _, immediate := range []bool{false, true} {
		url, pid := server.URL(), server.PID()
		if err := server.Restart(t.Context(), immediate); err != nil {
			t.Fatal(err)
		}
		if server.URL() != url || server.PID() == pid {
			t.Errorf("%s %d → %s %d", url, pid, server.URL(), server.PID())
		}
		db.Pool.Reset() // the old connections are dead
		if got := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); got != 1 {
			t.Errorf("immediate=%v: %d jobs", immediate, got)
		}
	}
	another := server.DB(t)
	if got := one[int](t, another.Pool, "SELECT count(*) FROM pgqueue.jobs"); got != 0 {
		t.Errorf("the second database has %d jobs", got)
	}
}

func TestServerMayBeDownAtTheEnd(t *testing.T) {
	t.Parallel()
	t.Run("halted", func(t *testing.T) {
		server := NewServer(t)
		db := server.DB(t)
		if err := server.Halt(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := db.Pool.Ping(t.Context()); err == nil {
			t.Error("the server is up")
		}
		if err := server.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		db.Pool.Reset()
		if err := db.Pool.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if err := server.Halt(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	})
}
