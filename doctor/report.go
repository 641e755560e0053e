package doctor

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Severity says how bad a finding is. Severities are ordered.
type Severity int

// The severities. A zero Severity means that there is no finding.
const (
	// Info is worth knowing and may be left as it is.
	Info Severity = iota + 1
	// Warning costs speed, space or certainty, or will become an error.
	Warning
	// Error means that work stands still or is in danger.
	Error
)

// String returns "info", "warning" or "error"; "none" for zero.
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Error:
		return "error"
	default:
		return "none"
	}
}

// MarshalText writes the severity as [Severity.String] does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Severity) UnmarshalText(text []byte) error {
	for known := range Error + 1 {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("doctor: %q is no severity", text)
}

// Finding is one thing that is wrong: what, why it matters, and what mends it.
type Finding struct {
	// Check is the id of the check, which stays the same from version to version; see [Checks].
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Subject is what it is about: a table, a role, a session.
	Subject string `json:"subject"`
	// Summary is what is wrong, in one sentence with the numbers. It may hold the beginning of another session's query.
	Summary string `json:"summary"`
	// Why says why it matters.
	Why string `json:"why"`
	// Fix says in words what mends it, and what to think of before.
	Fix string `json:"fix"`
	// FixSQL are the statements that mend it, each to be sent by itself and outside of a transaction, as a role that may (mostly the
	// owner). Empty where no statement can: start a worker, migrate, change a connection string.
	FixSQL []string `json:"fix_sql,omitempty"`
}

// Skipped is a check that could not be made, or not completely.
type Skipped struct {
	// Check is the id of the check.
	Check string `json:"check"`
	// Reason says why, and what is needed.
	Reason string `json:"reason"`
}

// Server is where the examination took place.
type Server struct {
	// Version is the version as the server writes it, such as "17.2", and Number the same as a number: 170002.
	Version string `json:"version"`
	Number  int    `json:"number"`
	// Database and Role are those of the connection.
	Database string `json:"database"`
	Role     string `json:"role"`
	// Superuser says whether the role is one.
	Superuser bool `json:"superuser"`
	// Standby is true for a server in recovery. What only the primary knows (dead rows, sessions there) is not seen from it.
	Standby bool `json:"standby"`
}

// Report is what an examination found. The names of its JSON stay the same from version to version; fields may be added.
type Report struct {
	Schema string `json:"schema"`
	// SchemaVersion is what is installed, 0 = nothing; Latest is what this binary expects.
	SchemaVersion uint `json:"schema_version"`
	// VersionUnknown is true where the role may not read the version; SchemaVersion is 0 then.
	VersionUnknown bool   `json:"version_unknown,omitempty"`
	Latest         uint   `json:"latest_version"`
	Server         Server `json:"server"`
	// Findings has the worst first, then the order of [Checks].
	Findings []Finding `json:"findings"`
	// Checked are the ids of the checks that were made, and Skipped those that were not, or only in part: these are in both.
	Checked []string  `json:"checked"`
	Skipped []Skipped `json:"skipped"`
	// At is when it began, by the clock of this process, and Took how long it was, in JSON in nanoseconds.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
}

// Worst is the worst severity found; zero if nothing was.
func (r *Report) Worst() Severity {
	var worst Severity
	for i := range r.Findings {
		worst = max(worst, r.Findings[i].Severity)
	}
	return worst
}

// Of returns the findings of one check.
func (r *Report) Of(check string) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if f.Check == check {
			found = append(found, f)
		}
	}
	return found
}

// String writes the report for people: a line on the installation, each finding with its reason and statements, what was skipped,
// and a last line that counts. Control characters are replaced, because names and queries are other people's text.
func (r *Report) String() string {
	var b strings.Builder
	place := ""
	if r.Server.Standby {
		place = ", a standby"
	}
	version := fmt.Sprintf("version %d of %d", r.SchemaVersion, r.Latest)
	if r.VersionUnknown {
		version = fmt.Sprintf("version unknown (this binary knows %d)", r.Latest)
	}
	fmt.Fprintf(&b, "schema %s, %s, in database %s of PostgreSQL %s%s, seen as %s\n",
		visible(r.Schema), version, visible(r.Server.Database), r.Server.Version, place, visible(r.Server.Role))
	counts := map[Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
		fmt.Fprintf(&b, "\n%-7s %s: %s\n  what: %s\n  why:  %s\n  fix:  %s\n",
			strings.ToUpper(f.Severity.String()), f.Check, visible(f.Subject), visible(f.Summary), visible(f.Why), visible(f.Fix))
		for _, sql := range f.FixSQL {
			fmt.Fprintf(&b, "        %s;\n", strings.ReplaceAll(visibleLines(sql), "\n", "\n        "))
		}
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\nnot checked:\n")
	}
	for _, group := range r.skippedAlike() {
		fmt.Fprintf(&b, "  %s: %s\n", group.Check, visible(group.Reason))
	}
	fmt.Fprintf(&b, "\n%d checks: %d errors, %d warnings, %d notes; %d skipped or in part\n",
		len(r.Checked), counts[Error], counts[Warning], counts[Info], len(r.Skipped))
	return b.String()
}

// skippedAlike are the skipped checks with those of one reason together, so that a right that is missing is said once: Check has all ids.
func (r *Report) skippedAlike() []Skipped {
	var groups []Skipped
	at := map[string]int{}
	for _, s := range r.Skipped {
		n, known := at[s.Reason]
		if !known {
			at[s.Reason] = len(groups)
			groups = append(groups, s)
			continue
		}
		if before := ", " + groups[n].Check + ","; !strings.Contains(before, ", "+s.Check+",") {
			groups[n].Check += ", " + s.Check
		}
	}
	return groups
}

// visible replaces what a terminal would obey.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return ' '
		}
		return c
	}, text)
}

// visibleLines is visible for a text of several lines.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	return strings.Join(lines, "\n")
}
