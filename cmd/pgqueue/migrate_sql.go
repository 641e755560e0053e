package main

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/migrations"
)

func (a *app) migrateSQLCommand() *cobra.Command {
	var dir string
	var from uint
	var down bool
	command := &cobra.Command{
		Use: "sql", Short: "Print the migrations as SQL, or write them as files", Args: cobra.NoArgs,
		Long: `Prints a script for psql that does what migrate up does, as one transaction, for those who let a database administrator run
it: it writes the version too, so that this program goes on from there. --from 3 is the upgrade of a schema of version 3, and
refuses any other. --down removes everything, live jobs included.

--dir writes the files for the golang-migrate command line instead; migrations/README.md says how it is called.

No database is needed.`,
		Example: `  pgqueue migrate sql | psql -v ON_ERROR_STOP=1
  pgqueue migrate sql --from 3 > upgrade.sql
  pgqueue migrate sql --dir pgqueue-sql`,
		RunE: func(command *cobra.Command, _ []string) error {
			if dir != "" {
				if from != 0 || down {
					return usage("--dir writes all files: it takes neither --from nor --down")
				}
				if err := migrations.WriteFiles(dir, a.schema()); err != nil {
					return err
				}
				a.notef("wrote the migrations of schema %q to %s", a.schema(), visible(dir))
				return nil
			}
			if down && command.Flags().Changed("from") {
				return usage("--down removes all versions: it takes no --from")
			}
			script, err := a.script(from, down)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.writeJSON(struct {
					Schema string `json:"schema"`
					SQL    string `json:"sql"`
				}{a.schema(), script})
			}
			return a.printf("%s", script)
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "write files for golang-migrate into this directory")
	command.Flags().UintVar(&from, "from", 0, "the version that is installed; 0 = nothing")
	command.Flags().BoolVar(&down, "down", false, "the script that removes everything")
	return command
}

// script is one transaction that takes a schema from a version to the latest, or from the latest to nothing.
func (a *app) script(from uint, down bool) (string, error) {
	schema := a.schema()
	files, err := migrations.FS(schema)
	if err != nil {
		return "", err
	}
	if from >= migrations.Latest {
		return "", usage("--from %d: this program knows the versions up to %d, so there is nothing to upgrade", from, uint(migrations.Latest))
	}
	table := pgx.Identifier{schema, "pgqueue_migrations"}.Sanitize()
	var b strings.Builder
	fmt.Fprintf(&b, "-- pgqueue: %s\n\nBEGIN;\n\n", title(schema, from, down))
	if down {
		guard(&b, schema, table, migrations.Latest)
		err = each(files, "*.down.sql", func(version uint) bool { return true }, true, &b)
		fmt.Fprintf(&b, "DROP TABLE %s;\n", table)
	} else {
		if from == 0 {
			name := pgx.Identifier{schema}.Sanitize()
			fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\nCOMMENT ON SCHEMA %s IS 'pgqueue: jobs in Postgres.';\n", name, name)
			fmt.Fprintf(&b, "CREATE TABLE %s (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);\n\n", table)
		} else {
			guard(&b, schema, table, from)
		}
		err = each(files, "*.up.sql", func(version uint) bool { return version > from }, false, &b)
		fmt.Fprintf(&b, "DELETE FROM %s;\nINSERT INTO %s (version, dirty) VALUES (%d, false);\n", table, table, uint(migrations.Latest))
	}
	if err != nil {
		return "", err
	}
	b.WriteString("\nCOMMIT;\n")
	if a.flags.citus && !down {
		sql, err := migrations.CitusSQL(schema)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n-- Citus: distribute the tables.\n\nBEGIN;\n\n%s\n\nCOMMIT;\n", strings.TrimRight(sql, "\n"))
	}
	return b.String(), nil
}

// title says what a script does, on one line whatever the schema is called.
func title(schema string, from uint, down bool) string {
	switch {
	case down:
		return fmt.Sprintf("removes version %d from schema %s, with all jobs, live ones too", uint(migrations.Latest), visible(schema))
	case from == 0:
		return fmt.Sprintf("installs version %d in schema %s", uint(migrations.Latest), visible(schema))
	}
	return fmt.Sprintf("upgrades schema %s from version %d to %d", visible(schema), from, uint(migrations.Latest))
}

// guard stops a script on a schema of another version than it was made for.
func guard(b *strings.Builder, schema, table string, version uint) {
	tag := "$guard$"
	for n := 1; strings.Contains(schema, tag); n++ {
		tag = "$guard" + strconv.Itoa(n) + "$"
	}
	fmt.Fprintf(b, `DO %s BEGIN
    IF NOT EXISTS (SELECT FROM %s WHERE version = %d AND NOT dirty) THEN
        RAISE EXCEPTION 'pgqueue: this script is for a schema of version %d: see pgqueue migrate status';
    END IF;
END %s;

`, tag, table, version, version, tag)
}

// each writes the files of one direction that are wanted.
func each(files fs.FS, pattern string, wanted func(version uint) bool, backwards bool, b *strings.Builder) error {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return err
	}
	var text string
	for _, name := range names { // in order: their names begin with the version in four digits
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return fmt.Errorf("migrations: %s has no version in its name: %w", name, err)
		}
		if !wanted(uint(version)) {
			continue
		}
		sql, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		part := fmt.Sprintf("-- %s\n\n%s\n", name, sql)
		if backwards {
			text = part + text
		} else {
			text += part
		}
	}
	b.WriteString(text)
	return nil
}
