package migrations

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Source replaces the files that Up and Down apply.
type Source struct {
	Files  fs.FS
	Latest uint
	// Probe is asked for versions above the real latest one.
	Probe string
}

func (s Source) option() Option {
	return func(m *migrator) {
		m.files, m.latest = s.Files, s.Latest
		m.logger = slog.New(slog.DiscardHandler)
		m.probe = func(version uint) string {
			if version > Latest {
				return s.Probe
			}
			return probe(version)
		}
	}
}

// UpWith is Up with other files.
func UpWith(ctx context.Context, db Database, schema string, source Source) error {
	return Up(ctx, db, schema, source.option())
}

// DownWith is Down with other files.
func DownWith(ctx context.Context, db Database, schema string, source Source) error {
	return Down(ctx, db, schema, source.option())
}

// VersionTable is the name of the version table.
const VersionTable = versionTable

// Fact is one property of one object.
type Fact = fact

// ReadFacts reads the facts of a schema.
func ReadFacts(ctx context.Context, tx pgx.Tx, schema string) ([]Fact, error) {
	return readFacts(ctx, tx, schema)
}

// ExpectedMajors are the versions that expected.txt knows.
func ExpectedMajors() []int { return expectedMajors() }

// Expectation is what is expected on a server.
func Expectation(major int) ([]Fact, map[Fact]bool, error) { return expectation(major) }

// WriteExpectation is the inverse of expectation: the facts of several major versions as text, with the versions where not all agree.
func WriteExpectation(facts map[int][]Fact) (string, error) {
	versions := map[fact][]string{}
	for _, major := range expectedMajors() {
		for _, f := range facts[major] {
			if text := f.Kind + f.Name + f.Property + f.Value; strings.ContainsAny(text, "\t\n") {
				return "", fmt.Errorf("%q cannot be written on one line", text)
			}
			versions[f] = append(versions[f], strconv.Itoa(major))
		}
	}
	var all []fact
	for f := range versions {
		all = append(all, f)
	}
	slices.SortFunc(all, compareFacts)
	var b strings.Builder
	fmt.Fprintf(&b, "# The catalog after migration %d: kind, name, property, value, and the major versions of Postgres if not all agree.\n", Latest)
	b.WriteString("# Made by: go test ./migrations -run TestTheExpectationIsWhatTheMigrationsMake -update\n")
	for _, f := range all {
		b.WriteString(strings.Join([]string{f.Kind, f.Name, f.Property, f.Value}, "\t"))
		if on := versions[f]; len(on) < len(facts) {
			b.WriteString("\t" + strings.Join(on, ","))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
