package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// auditLine is an entry of the audit log as JSON.
type auditLine struct {
	ID       int64           `json:"id"`
	At       time.Time       `json:"at"`
	Actor    string          `json:"actor"`
	Role     string          `json:"role"`
	Via      string          `json:"via"`
	Action   string          `json:"action"`
	Jobs     []int64         `json:"jobs,omitempty"`
	JobCount int             `json:"job_count,omitempty"`
	Queue    string          `json:"queue,omitempty"`
	Kind     string          `json:"kind,omitempty"`
	Subject  string          `json:"subject,omitempty"`
	Filter   json.RawMessage `json:"filter,omitempty"`
	Detail   string          `json:"detail,omitempty"`
}

// auditCommand shows who did what.
func (a *app) auditCommand() *cobra.Command {
	var filter pgqueue.AuditFilter
	var options pgqueue.AuditOptions
	var from, to string
	var actions []string
	command := &cobra.Command{
		Use: "audit", Short: "Show who did what, the latest first", Args: cobra.NoArgs,
		Long: `Show what people did with this command line and the console, the latest first. ACTOR is who they said they are, ROLE who was connected to
Postgres. What is done by plain SQL is not recorded.`,
		Example: `  pgqueue audit --from -1d
  pgqueue audit --job 17
  pgqueue audit --by alice --action retry --json`,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, flag := range []string{"job", "limit"} {
				if number := command.Flags().Lookup(flag); number.Changed && (number.Value.String() == "0" || strings.HasPrefix(number.Value.String(), "-")) {
					return usage("--%s is a number from 1 on, not %s", flag, number.Value)
				}
			}
			ctx := command.Context()
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.close()
			clock := &databaseClock{pool: s.pool}
			for _, bound := range []struct {
				flag, text string
				into       *time.Time
			}{{"from", from, &filter.Time.From}, {"to", to, &filter.Time.To}} {
				if bound.text == "" {
					continue
				}
				if *bound.into, err = clock.resolve(ctx, bound.flag, bound.text); err != nil {
					return err
				}
			}
			for _, action := range actions {
				filter.Actions = append(filter.Actions, pgqueue.Action(action))
			}
			page, err := s.inspector.AuditLog(ctx, filter, options)
			if err != nil {
				return err
			}
			if err := a.writeAudit(page); err != nil {
				return err
			}
			if a.flags.json {
				if page.Next == "" {
					return nil
				}
				return writeLine(a.err, struct {
					Next     string `json:"next"`
					LookedAt int    `json:"looked_at,omitempty"`
				}{page.Next, page.Scanned})
			}
			if page.Short {
				a.notef("looked at %s; there may be more further back", plural(page.Scanned, "entry", "entries"))
			}
			if page.Next != "" {
				a.notef("there are more: add --cursor %s", shellWord(page.Next))
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&from, "from", "", "since when: -1d, or a time")
	flags.StringVar(&to, "to", "", "until when")
	flags.Int64Var(&filter.Job, "job", 0, "what was done to a job")
	flags.StringVar(&filter.Actor, "by", "", "what somebody did")
	flags.StringVar(&filter.Role, "role", "", "what was done as a role of Postgres")
	flags.StringVar(&filter.Via, "via", "", "what was done with a tool: cli or console")
	flags.StringVar(&filter.Queue, "queue", "", "what was done to a queue")
	flags.StringVar(&filter.Kind, "kind", "", "what was done to a kind")
	flags.StringVar(&filter.Subject, "schedule", "", "what was done to a schedule")
	flags.StringArrayVar(&actions, "action", nil, "actions of this name; may be repeated")
	flags.IntVar(&options.Limit, "limit", 50, "how many are shown, at most 1000")
	flags.StringVar(&options.Cursor, "cursor", "", "where to go on")
	return command
}

func (a *app) writeAudit(page *pgqueue.AuditPage) error {
	if a.flags.json {
		for n := range page.Records {
			r := &page.Records[n]
			line := auditLine{
				ID: r.ID, At: r.At.UTC(), Actor: r.Actor, Role: r.Role, Via: r.Via, Action: string(r.Action), Jobs: r.Jobs, JobCount: r.JobCount,
				Queue: r.Queue, Kind: r.Kind, Subject: r.Subject, Filter: r.StoredFilter, Detail: r.Detail,
			}
			if err := writeLine(a.out, line); err != nil {
				return err
			}
		}
		return nil
	}
	if len(page.Records) == 0 {
		a.notef("nothing that matches is recorded")
	}
	rows := make([][]string, len(page.Records))
	for n := range page.Records {
		r := &page.Records[n]
		rows[n] = []string{r.At.UTC().Format("2006-01-02 15:04:05Z"), r.Actor, r.Role, r.Via, string(r.Action), auditTarget(r), shortened(r.Detail, 80)}
	}
	return a.writeTable([]string{"AT", "ACTOR", "ROLE", "VIA", "ACTION", "WHAT", "DETAIL"}, rows)
}

// auditTarget says in a few words what was acted on.
func auditTarget(r *pgqueue.AuditRecord) string {
	var parts []string
	switch {
	case r.JobCount == 1 && len(r.Jobs) == 1:
		parts = append(parts, fmt.Sprintf("job %d", r.Jobs[0]))
	case r.JobCount > 0:
		parts = append(parts, plural(r.JobCount, "job", "jobs"))
	}
	for _, part := range [][2]string{{"schedule", r.Subject}, {"kind", r.Kind}, {"queue", r.Queue}} {
		if part[1] != "" {
			parts = append(parts, part[0]+" "+part[1])
		}
	}
	return strings.Join(parts, ", ")
}
