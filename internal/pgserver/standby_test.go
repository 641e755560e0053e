package pgserver

import (
	"context"
	"testing"
)

func TestStandbyFollowsAndTakesOver(t *testing.T) {
	t.Parallel()
	primary := startServer(t, Options{})
	query(t, primary.Port(), "CREATE TABLE kept (n int)")
	query(t, primary.Port(), "ALTER SYSTEM SET synchronous_standby_names = '"+StandbyName+"'") // holds from the restart on
	query(t, primary.Port(), "ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
	standby, err := primary.StartStandby(testContext(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if got := query(t, standby.Port(), "SELECT pg_is_in_recovery()::text, to_regclass('kept')::text"); got[0] != "true" || got[1] != "kept" {
		t.Errorf("the standby says %v", got)
	}
	// What is committed afterwards arrives: with a synchronous standby the commit waits for that.
	query(t, primary.Port(), "INSERT INTO kept VALUES (1)")
	if got := query(t, standby.Port(), "SELECT count(*)::text FROM kept"); got[0] != "1" {
		t.Errorf("%s rows have arrived, want 1", got[0])
	}
	if err := primary.StopImmediate(testContext(t)); err != nil {
		t.Fatal(err)
	}
	query(t, standby.Port(), "SELECT pg_promote()")
	// It has the primary's synchronous_standby_names, and no standby of its own.
	query(t, standby.Port(), "SET synchronous_commit = local; INSERT INTO kept VALUES (2)")
}
