package migrations

import (
	"context"
	"io/fs"
	"log/slog"
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
