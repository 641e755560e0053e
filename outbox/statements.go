package outbox

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// The statements, as templates.
//
//go:embed statements.sql
var templates string

// Statement is one statement as it is sent, for review.
type Statement struct {
	Name string
	// Doc says what it does and why it is written as it is.
	Doc string
	SQL string
	// Args names what $1, $2, … stand for.
	Args []string
}

// args are the values of a statement's parameters by name.
type args map[string]any

// values puts the values in the order of the parameters.
func (s *Statement) values(given args) []any {
	values := make([]any, len(s.Args))
	for i, name := range s.Args {
		values[i] = given[name]
	}
	return values
}

// names is what the templates see: everything quoted.
type names struct {
	Table string
	Keys  []keyName

	Status, Attempts, NextAttempt, AttemptedAt, CreatedAt                                      string
	Failures, MaxAttempts, Priority, Kind, LeaseUntil, Token, ErrorCode, LastError, FinishedAt string
	Result, ResultType                                                                         string
	Pending, Processing, Succeeded, Failed, Dead, Cancelled                                    string
	Columns, Join, IdempotencyKey                                                              string
	Composite, Lock, One, Except                                                               bool
}

type keyName struct{ Name, Type, Arg string }

// variant says which of the optional conditions a statement has.
type variant struct{ lock, one, except bool }

// render makes the statements of one table, by name. Those that take a set of rows come in variants: "claim_one" and
// "reap_one" for one key, "claim_but" and "reap_but" for all but some.
func render(n names) (map[string]*Statement, error) {
	sections, parts := split(templates)
	made := make(map[string]*Statement, len(sections)+4)
	for _, section := range sections {
		for suffix, v := range map[string]variant{"": {lock: true}, "_one": {lock: true, one: true}, "_but": {lock: true, except: true}} {
			if suffix != "" && section.name != "claim" && section.name != "reap" {
				continue
			}
			if section.name == "peek" || section.name == "peek_stale" {
				v = variant{except: true}
			}
			s, err := n.renderOne(section, parts, v)
			if err != nil {
				return nil, err
			}
			if s.SQL != "" {
				s.Name += suffix
				made[s.Name] = s
			}
		}
	}
	return made, nil
}

type section struct{ name, text string }

var heading = regexp.MustCompile(`(?m)^-- (name|part): ([a-z_]+)$`)

// split cuts the file at its headings.
func split(text string) (statements, parts []section) {
	found := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		s := section{name: text[at[4]:at[5]], text: text[at[1]:end]}
		if text[at[2]:at[3]] == "part" {
			parts = append(parts, s)
		} else {
			statements = append(statements, s)
		}
	}
	return statements, parts
}

var parameter = regexp.MustCompile(`@([a-z_]+)`)

// renderOne fills in one template. Parameters are numbered while it runs, before any name is filled in, so that a column may
// be called "a@limit".
func (n names) renderOne(from section, parts []section, v variant) (*Statement, error) {
	n.Lock, n.One, n.Except = v.lock, v.one, v.except
	s := &Statement{Name: from.name}
	root := template.New(from.name).Funcs(s.functions())
	for _, part := range parts {
		if _, err := root.New(part.name).Parse(prepare(withoutComments(part.text))); err != nil {
			return nil, fmt.Errorf("outbox: template %s: %w", part.name, err)
		}
	}
	if _, err := root.Parse(prepare(from.text)); err != nil {
		return nil, fmt.Errorf("outbox: template %s: %w", from.name, err)
	}
	var text strings.Builder
	if err := root.Execute(&text, n); err != nil {
		return nil, fmt.Errorf("outbox: template %s: %w", from.name, err)
	}
	var doc, sql []string
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, " \n")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
		case strings.HasPrefix(trimmed, "--"):
			doc = append(doc, strings.TrimPrefix(strings.TrimPrefix(trimmed, "--"), " "))
		default:
			sql = append(sql, line)
		}
	}
	s.Doc, s.SQL = strings.Join(doc, "\n"), strings.Join(sql, "\n")
	return s, nil
}

func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			kept.WriteString(line)
		}
	}
	return strings.TrimSpace(kept.String())
}

func prepare(text string) string { return parameter.ReplaceAllString(text, `{{arg "$1"}}`) }

// functions are for lists of key columns, in which the templates would be unreadable.
func (s *Statement) functions() template.FuncMap {
	arg := func(name string) string {
		for i, known := range s.Args {
			if known == name {
				return "$" + strconv.Itoa(i+1)
			}
		}
		s.Args = append(s.Args, name)
		return "$" + strconv.Itoa(len(s.Args))
	}
	each := func(keys []keyName, between string, text func(k keyName) string) string {
		texts := make([]string, len(keys))
		for i, k := range keys {
			texts[i] = text(k)
		}
		return strings.Join(texts, between)
	}
	return template.FuncMap{
		"arg": arg,
		// $1::text[], $2::text[]
		"args": func(keys []keyName, prefix string) string {
			return each(keys, ", ", func(k keyName) string { return arg(prefix+k.Arg) + "::text[]" })
		},
		// k_a, k_b
		"list": func(keys []keyName) string { return each(keys, ", ", func(k keyName) string { return k.Arg }) },
		// x."id", x."tenant"
		"cols": func(alias string, keys []keyName) string {
			return each(keys, ", ", func(k keyName) string { return alias + "." + k.Name })
		},
		// x."id"::text, x."tenant"::text
		"textkeys": func(alias string, keys []keyName) string {
			return each(keys, ", ", func(k keyName) string { return alias + "." + k.Name + "::text" })
		},
		// t."id" = l."id"
		"same": func(a, b string, keys []keyName) string {
			return each(keys, " AND ", func(k keyName) string { return a + "." + k.Name + " = " + b + "." + k.Name })
		},
		// x."id" = f.k_a::bigint
		"match": func(alias string, keys []keyName, arrays string) string {
			return each(keys, " AND ", func(k keyName) string { return alias + "." + k.Name + " = " + arrays + "." + k.Arg + "::" + k.Type })
		},
		// x."id" = $1::text::bigint
		"only": func(alias string, keys []keyName) string {
			return each(keys, " AND ", func(k keyName) string {
				return alias + "." + k.Name + " = " + arg("one_"+k.Arg) + "::text::" + k.Type
			})
		},
	}
}

// quote writes a name, or nothing for none.
func quote(name string) string {
	if name == "" {
		return ""
	}
	return Name{name}.String()
}

// literal writes a string literal that means the same whether standard_conforming_strings is on or off. Its type is left
// open, so that it becomes that of the column: text, an enum, or a number.
func literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(quoted, `\`) {
		quoted = "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// names fills in the table.
func (t *Table[P, R]) names() names {
	n := names{
		Table:  t.Name.String(),
		Status: quote(t.Status.Name), Attempts: quote(t.Attempts), NextAttempt: quote(t.NextAttempt),
		AttemptedAt: quote(t.AttemptedAt), CreatedAt: quote(t.CreatedAt), Failures: quote(t.Failures),
		MaxAttempts: quote(t.MaxAttempts), Priority: quote(t.Priority), Kind: quote(t.Kind), LeaseUntil: quote(t.LeaseUntil),
		Token: quote(t.Token), ErrorCode: quote(t.ErrorCode), LastError: quote(t.LastError), FinishedAt: quote(t.FinishedAt),
		Result: quote(t.Result.Name), ResultType: t.Result.Type,
		Pending: literal(t.Status.Pending), Processing: literal(t.Status.Processing), Succeeded: literal(t.Status.Succeeded),
		Failed: literal(t.Status.Failed), Dead: literal(t.Status.Dead), Cancelled: literal(t.Status.Failed),
		Columns: strings.Join(t.Columns, ", "), Join: t.Join, IdempotencyKey: t.IdempotencyKey,
		Composite: len(t.Key) > 1,
	}
	if t.Status.Cancelled != "" {
		n.Cancelled = literal(t.Status.Cancelled)
	}
	for i, k := range t.Key {
		n.Keys = append(n.Keys, keyName{quote(k.Name), k.Type, keyArg(i)})
	}
	return n
}
