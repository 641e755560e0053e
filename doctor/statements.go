package doctor

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/pgqueue/pgqueue/migrations"
)

// statements are those of all migrations in their order, rendered for one schema: what an object looks like, and what makes it again.
type statements struct {
	schema string
	all    []string
}

// newStatements reads the migrations.
func newStatements(schema string) (*statements, error) {
	files, err := migrations.FS(schema)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.up.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	s := &statements{schema: schema}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		s.all = append(s.all, split(string(text))...)
	}
	return s, nil
}

// matching returns the statements that begin with one of the patterns. In a pattern, a blank matches any white space, S. is the quoted
// schema with its dot.
func (s *statements) matching(patterns ...string) []string {
	for i, p := range patterns {
		p = strings.ReplaceAll(p, " ", `\s+`)
		patterns[i] = strings.ReplaceAll(p, "S.", regexp.QuoteMeta(ident(s.schema)+"."))
	}
	begins := regexp.MustCompile(`^(?:` + strings.Join(patterns, "|") + `)`)
	var found []string
	for _, statement := range s.all {
		if begins.MatchString(statement) {
			found = append(found, statement)
		}
	}
	return found
}

// table returns what makes a table, with its indexes, comments, first rows and its place as a partition. indexes are those of the table.
func (s *statements) table(name string, indexes []string) []string {
	t := regexp.QuoteMeta(name) + `\b`
	patterns := []string{
		`CREATE TABLE S.` + t, `ALTER TABLE S.` + t, `DO [^;]*ALTER TABLE %I\.` + t, `ALTER TABLE S.\w+ ATTACH PARTITION S.` + t, `INSERT INTO S.` + t,
		`CREATE (?:UNIQUE )?INDEX \w+ ON S.` + t, `CREATE TRIGGER [^;]* ON S.` + t, `COMMENT ON TABLE S.` + t, `COMMENT ON COLUMN S.` + t + `\.`,
		`COMMENT ON SEQUENCE S.` + regexp.QuoteMeta(name) + `_\w+_seq\b`,
	}
	for _, index := range indexes {
		patterns = append(patterns, `COMMENT ON INDEX S.`+regexp.QuoteMeta(index)+`\b`)
	}
	own := ident(s.schema) + "." + name + " "
	return slices.DeleteFunc(s.matching(patterns...), func(statement string) bool { // other tables' place in this one
		return strings.Contains(statement, " ATTACH PARTITION ") && !strings.Contains(statement, " ATTACH PARTITION "+own)
	})
}

// trigger returns what makes a trigger, given as in the facts: "schedules.schedule_changed".
func (s *statements) trigger(name string) []string {
	table, trigger, _ := strings.Cut(name, ".")
	return latest(s.matching(`CREATE TRIGGER ` + regexp.QuoteMeta(trigger) + ` [^;]* ON S.` + regexp.QuoteMeta(table) + `\b`))
}

// view returns what makes a view; replace keeps the one that is there, with its rights, which Postgres allows while the columns are the same.
func (s *statements) view(name string, replace bool) []string {
	v := regexp.QuoteMeta(name) + `\b`
	made := latest(s.matching(`CREATE (?:OR REPLACE )?VIEW S.` + v))
	if replace {
		return orReplace(made)
	}
	return append(made, s.matching(`COMMENT ON VIEW S.`+v, `COMMENT ON COLUMN S.`+v+`\.`, `(?:GRANT|REVOKE) [^;]* ON (?:TABLE )?S.`+v)...)
}

// function returns what makes a function, which is given with its arguments as in the facts: "retry(id bigint)". replace keeps the one that
// is there, with its rights, which Postgres allows while arguments and result are the same.
func (s *statements) function(signature string, replace bool) []string {
	name, arguments, _ := strings.Cut(signature, "(")
	want := types(arguments, true)
	f := regexp.QuoteMeta(name) + `\(`
	of := func(all []string, named bool) (found []string) {
		for _, statement := range all {
			if _, arguments, _ := strings.Cut(statement, ident(s.schema)+"."+name+"("); named {
				if types(arguments, true) == want {
					found = append(found, statement)
				}
			} else if types(arguments, false) == want {
				found = append(found, statement)
			}
		}
		return found
	}
	made := latest(of(s.matching(`CREATE (?:OR REPLACE )?FUNCTION S.`+f), true))
	if replace {
		return orReplace(made)
	}
	return append(made, of(s.matching(`COMMENT ON FUNCTION S.`+f, `(?:GRANT|REVOKE) [^;]* ON FUNCTION S.`+f), false)...)
}

// types reads the types of the arguments that a text begins with, up to the closing parenthesis, as the catalog writes them. named: each
// has a name before it. Arguments that only return something do not count.
func types(text string, named bool) string {
	text = text[:argumentsEnd(text, ")")]
	var all []string
	for text != "" {
		end := argumentsEnd(text, ",")
		words := strings.Fields(text[:end])
		text = strings.TrimPrefix(text[end:], ",")
		for i, word := range words {
			if strings.EqualFold(word, "DEFAULT") {
				words = words[:i]
				break
			}
		}
		if len(words) == 0 || strings.EqualFold(words[0], "OUT") {
			continue
		}
		if named {
			words = words[1:]
		}
		all = append(all, typeName(strings.Join(words, " ")))
	}
	return strings.Join(all, ",")
}

// argumentsEnd is where the first stop lies that is in no parentheses and no string.
func argumentsEnd(text, stop string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case depth == 0 && c == stop[0]:
			return i
		case c == '\'':
			i += until(text[i:], "'", 1) - 1
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		}
	}
	return len(text)
}

// typeName is the catalog's name for a type that the migrations write in short.
func typeName(short string) string {
	element, array := strings.CutSuffix(short, "[]")
	for from, to := range map[string]string{"int": "integer", "timestamptz": "timestamp with time zone", "float8": "double precision", "bool": "boolean"} {
		if element == from {
			element = to
			break
		}
	}
	if array {
		element += "[]"
	}
	return element
}

// comment returns the statement that comments on an object, as the facts name it: "table jobs", "column jobs.id", "function retry(id bigint)".
func (s *statements) comment(what string) []string {
	kind, name, _ := strings.Cut(what, " ")
	if kind != "function" {
		return latest(s.matching(`COMMENT ON ` + strings.ToUpper(kind) + ` S.` + regexp.QuoteMeta(name) + `\b IS`))
	}
	for _, statement := range s.function(name, false) {
		if strings.HasPrefix(statement, "COMMENT") {
			return []string{statement}
		}
	}
	return nil
}

// latest keeps the last statement.
func latest(found []string) []string {
	if len(found) == 0 {
		return nil
	}
	return found[len(found)-1:]
}

// orReplace turns CREATE into CREATE OR REPLACE.
func orReplace(made []string) []string {
	replaced := make([]string, len(made))
	for i := range made {
		replaced[i] = "CREATE OR REPLACE " + strings.TrimPrefix(strings.TrimPrefix(made[i], "CREATE "), "OR REPLACE ")
	}
	return replaced
}

// split cuts SQL into its statements, without the comments before them. It knows strings, quoted names, dollar quotes and comments.
func split(sql string) []string {
	var found []string
	start, i := 0, 0
	for i < len(sql) {
		rest := sql[i:]
		switch {
		case strings.HasPrefix(rest, "--"):
			end := until(rest, "\n", 0)
			if strings.TrimSpace(sql[start:i]) == "" {
				start = i + end // between two statements
			}
			i += end
		case strings.HasPrefix(rest, "/*"):
			i += until(rest, "*/", 2)
		case rest[0] == '\'' && i > 0 && (sql[i-1] == 'E' || sql[i-1] == 'e'):
			i += escapedString(rest)
		case rest[0] == '\'', rest[0] == '"': // a doubled quote ends one and begins the next, which comes to the same
			i += until(rest, rest[:1], 1)
		case rest[0] == '$':
			tag := dollarQuote(rest)
			i += max(1, until(rest, tag, len(tag)))
		case rest[0] == ';':
			if statement := strings.TrimSpace(sql[start:i]); statement != "" {
				found = append(found, statement)
			}
			i++
			start = i
		default:
			i++
		}
	}
	if statement := strings.TrimSpace(sql[start:]); statement != "" {
		found = append(found, statement)
	}
	return found
}

// until is how many bytes lie before the end of the first end after from.
func until(text, end string, from int) int {
	at := strings.Index(text[from:], end)
	if at < 0 {
		return len(text)
	}
	return from + at + len(end)
}

// escapedString is the length of the rest of an E'…' string.
func escapedString(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(text)
}

// dollarQuote returns the tag that text begins with, such as $body$; "" if it is none.
func dollarQuote(text string) string {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '$':
			return text[:i+1]
		case c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z'):
			return ""
		}
	}
	return ""
}
