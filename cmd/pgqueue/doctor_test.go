package main

import (
	"testing"

	"github.com/pgqueue/pgqueue/doctor"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The exit code is that of the worst finding, measured by --fail-on.
func TestDoctorExitCode(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	// A warning, and no more, whatever the server of the tests is like.
	if _, err := db.Pool.Exec(t.Context(), `ALTER TABLE `+quoted(db.Schema)+`.jobs ADD COLUMN note text`); err != nil {
		t.Fatal(err)
	}
	report := decoded[doctor.Report](c.run("doctor", "--json", "--fail-on", "never").want(exitOK))
	if report.Schema != db.Schema || len(report.Checked) != len(doctor.Checks()) || report.Worst() == 0 {
		t.Fatalf("%+v", report)
	}
	check := ""
	for _, finding := range report.Findings {
		if finding.Severity == doctor.Warning {
			check = finding.Check
		}
	}
	if check == "" {
		t.Fatalf("no warning: %+v", report)
	}
	c.run("doctor", "--only", check).want(exitOK).says(check, "fix:")
	c.run("doctor", "--only", check, "--fail-on", "error").want(exitOK)
	c.run("doctor", "--only", check, "--fail-on", "warning").want(exitFindings).says(check)
	c.run("doctor", "--only", check, "--fail-on", "info", "--json").want(exitFindings)
	c.run("doctor", "--only", "encoding").want(exitUsage).says("pgqueue doctor checks")
}

// Roles are examined for what they are meant to do.
func TestDoctorRoles(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newCLI(t, db)
	c.run("doctor", "--role", "no such=role=worker,producer").want(exitFindings).says("no such=role")
	c.run("doctor", "--purpose", "worker", "--fail-on", "never").want(exitOK)
	c.run("doctor", "--purpose", "boss").want(exitUsage).says("boss", "producer")
	c.run("doctor", "--role", "=worker").want(exitUsage).says("--purpose")
	c.run("doctor", "--fail-on", "sometimes").want(exitUsage)
	if checks := decoded[struct{ Checks []map[string]string }](newCLI(t, nil).run("doctor", "checks", "--json").want(exitOK)); len(checks.Checks) != len(doctor.Checks()) || checks.Checks[0]["id"] == "" {
		t.Errorf("%+v", checks)
	}
}
