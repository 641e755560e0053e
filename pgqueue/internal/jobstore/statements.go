package jobstore

import (
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed *.sql
var statementFiles embed.FS

// statements are the texts of this package's .sql files by name, with the schema's quoted name put in. They are made
// once, when a client is made, and only read afterwards.
type statements map[string]string

// loadStatements reads every "-- name: x" section of the embedded files. In the files, {schema} stands for the quoted
// name of the schema. Comments are kept out of what is sent.
func loadStatements(schema string) (statements, error) {
	entries, err := statementFiles.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	found := statements{}
	for _, entry := range entries {
		text, err := statementFiles.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read statements: %w", err)
		}
		for _, section := range strings.Split("\n"+string(text), "\n-- name: ")[1:] {
			name, body, _ := strings.Cut(section, "\n")
			name = strings.TrimSpace(name)
			if _, ok := found[name]; ok {
				return nil, fmt.Errorf("read statements: %s: %q stands there twice", entry.Name(), name)
			}
			found[name] = strings.ReplaceAll(stripComments(body), "{schema}", quoted)
		}
	}
	return found, nil
}

// stripComments drops whole-line and trailing "--" comments: they teach the reader of the file, and would otherwise
// travel to the server, and into its statistics, with every call. No statement here has "--" inside a string.
func stripComments(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimRight(line, " \t"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// get returns the statement of that name; the constructor asks for each one it uses, so a misspelt name fails there.
func (s statements) get(name string) (string, error) {
	text, ok := s[name]
	if !ok {
		return "", fmt.Errorf("statement %q is not in the embedded files", name)
	}
	return text, nil
}
