package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// driftIndexes: missing, foreign and changed indexes. Those behind constraints are the constraints' business.
func driftIndexes(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, o := range d.objects("index") {
		drop := "DROP INDEX CONCURRENTLY " + d.quoted(o.name)
		if o.want == nil {
			if !d.has("table", o.have["table"]) || o.have["constraint"] != "" || debris(o.name) {
				continue
			}
			severity := Info
			if o.have["table"] == "jobs" {
				severity = Warning // paid for by every enqueue, claim and completion
			}
			f := d.finding(severity, o, "Drop it, unless a query of yours needs it.", drop)
			f.Why = "Each further index makes every change of a row dearer, and one on a column that claims or renewals change takes HOT updates away."
			found = append(found, f)
			continue
		}
		if o.want["constraint"] != "" || !d.has("table", o.want["table"]) {
			continue
		}
		unique := ""
		if o.want["unique"] == "true" {
			unique = "UNIQUE "
		}
		create := fmt.Sprintf("CREATE %sINDEX CONCURRENTLY %s ON %s USING %s", unique, ident(o.name), d.quoted(o.want["table"]), o.want["definition"])
		sql := []string{create}
		if o.have != nil {
			sql = []string{drop, create}
		}
		sql = append(sql, d.made.comment("index "+o.name)...)
		found = append(found, d.finding(Error, o, "Make it again; nobody is blocked meanwhile.", sql...))
	}
	return found, nil
}

// driftFunctions: missing and changed functions, foreign ones of the same name, and those that everybody may call.
func driftFunctions(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for at := range d.want {
		if at.Kind == "function" {
			name, _, _ := strings.Cut(at.Name, "(")
			names = append(names, name)
		}
	}
	var found []Finding
	for _, o := range d.objects("function") {
		name, arguments, _ := strings.Cut(o.name, "(")
		signature := d.quoted(name) + "(" + arguments
		switch {
		case o.want == nil:
			if !slices.Contains(names, name) {
				continue // somebody else's
			}
			f := d.finding(Warning, o, "Drop it, or give it another name.", "DROP FUNCTION "+signature)
			f.Why = "A second function of the same name makes calls ambiguous, so that they fail."
			found = append(found, f)
		case o.have == nil:
			found = append(found, d.finding(Error, o, "Make it again, and grant the roles' rights on it again.", d.made.function(o.name, false)...))
		case o.is("public may execute"):
			if o.want["public may execute"] == "true" {
				continue // taken away on purpose; rights tells which role misses it
			}
			f := d.finding(Warning, o, "Take the right away from PUBLIC; roles that need it have it by name.", "REVOKE ALL ON FUNCTION "+signature+" FROM PUBLIC")
			f.Why = "The function runs with the owner's rights: every role of the database may change jobs with it."
			found = append(found, f)
		default:
			again := slices.Contains(o.changed, "arguments") || slices.Contains(o.changed, "result")
			sql := d.made.function(o.name, !again)
			fix := "Replace it by the migrations' version."
			if again {
				sql = append([]string{"DROP FUNCTION " + signature}, sql...)
				fix += " It has to be dropped for that: grant the roles' rights on it again."
			}
			found = append(found, d.finding(Error, o, fix, sql...))
		}
	}
	return found, nil
}

// driftViews: missing and changed views.
func driftViews(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	changed := map[string]object{}
	for _, o := range d.objects("view") {
		if o.want != nil {
			changed[o.name] = o
		}
	}
	reshaped := map[string]bool{} // columns differ: CREATE OR REPLACE refuses
	for _, c := range d.objects("column") {
		view, _ := owner(c.name)
		if d.has("view", view) {
			reshaped[view] = true
			if _, known := changed[view]; !known {
				at := fact{Kind: "view", Name: view}
				changed[view] = object{kind: "view", name: view, want: d.want[at], have: d.actual[at], changed: []string{"columns"}}
			}
		}
	}
	var found []Finding
	for _, view := range slices.Sorted(maps.Keys(changed)) {
		o := changed[view]
		switch {
		case o.have == nil:
			found = append(found, d.finding(Error, o, "Make it again, and grant the roles' rights on it again.", d.made.view(view, false)...))
		case reshaped[view]:
			found = append(found, d.finding(Error, o, "Make it again. It has to be dropped for that: grant the roles' rights on it again.",
				append([]string{"DROP VIEW " + d.quoted(view)}, d.made.view(view, false)...)...))
		default:
			found = append(found, d.finding(Warning, o, "Replace it by the migrations' version.", d.made.view(view, true)...))
		}
	}
	return found, nil
}

// driftStorage: storage parameters that were measured and have been changed, and options of views. Whether autovacuum is on has a check of
// its own.
func driftStorage(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, o := range d.objects("storage") {
		table, parameter := owner(o.name)
		if !d.has("table", table) && !d.has("view", table) || strings.HasSuffix(parameter, "autovacuum_enabled") ||
			parameter == "security_invoker" { // a choice that docs/roles.md offers for views
			continue
		}
		alter := "ALTER TABLE " + d.quoted(table)
		severity, sql := Warning, alter+" SET ("+parameter+" = "+o.want["value"]+")"
		if o.want == nil {
			severity, sql = Info, alter+" RESET ("+parameter+")"
		}
		f := d.finding(severity, o, "Change it back, unless you have measured that yours is better.", sql)
		f.Subject = "table " + table
		if d.has("view", table) {
			f.Subject = "view " + table
		}
		f.Why = "The storage parameters keep renewals HOT, vacuum often enough for a table whose rows live for seconds, and nobody waiting for a truncation."
		found = append(found, f)
	}
	return found, nil
}

// driftComments: objects of ours whose comment is gone, in one finding: a dump without comments loses them all.
func driftComments(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	var names, sql []string
	for _, o := range d.objects("comment") {
		kind, name, _ := strings.Cut(o.name, " ")
		there := d.has(kind, name) || kind == "column" && d.actual[fact{Kind: "column", Name: name}] != nil
		statement := d.made.comment(o.name)
		if o.have != nil || !there || len(statement) == 0 {
			continue
		}
		names = append(names, o.name)
		sql = append(sql, statement...)
	}
	if len(names) == 0 {
		return nil, nil
	}
	few := names
	if len(few) > 3 {
		few = append(slices.Clone(few[:3]), "…")
	}
	return []Finding{{
		Severity: Info, Subject: "schema " + d.schema,
		Summary: fmt.Sprintf("%s without a comment: %s.", plural(int64(len(names)), "object"), strings.Join(few, ", ")),
		Why:     `The comments explain the tables in psql (\d+) and in every other tool.`,
		Fix:     "Write them again.", FixSQL: sql,
	}}, nil
}
