package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgqueue/pgqueue/migrations"
)

// driftIndexes: missing, foreign and changed indexes. Those behind constraints are the constraints' business.
func driftIndexes(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, o := range d.objects("index") {
		drop := "DROP INDEX CONCURRENTLY " + d.quoted(o.Name)
		if o.Want == nil {
			if debris(o.Name) {
				continue // index-debris tells
			}
			severity := Info
			if o.Parent == "jobs" {
				severity = Warning // paid for by every enqueue, claim and completion
			}
			f := d.finding(severity, o, "Drop it, unless a query of yours needs it.", drop)
			f.Why = "Each further index makes every change of a row dearer, and one on a column that claims or renewals change takes HOT updates away."
			found = append(found, f)
			continue
		}
		if o.is("valid") {
			continue // index-invalid tells
		}
		unique := ""
		if o.Want["unique"] == "true" {
			unique = "UNIQUE "
		}
		create := fmt.Sprintf("CREATE %sINDEX CONCURRENTLY %s ON %s USING %s", unique, ident(o.Name), d.quoted(o.Parent), o.Want["definition"])
		sql := []string{create}
		if o.Have != nil {
			sql = []string{drop, create}
		}
		sql = append(sql, d.made.comment("index "+o.Name)...)
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
	var found []Finding
	for _, o := range d.objects("function") {
		name, arguments, _ := strings.Cut(o.Name, "(")
		signature := d.quoted(name) + "(" + arguments
		switch {
		case o.Want == nil:
			f := d.finding(Warning, o, "Drop it, or give it another name.", "DROP FUNCTION "+signature)
			f.Why = "A second function of the same name makes calls ambiguous, so that they fail."
			found = append(found, f)
		case o.Have == nil:
			found = append(found, d.finding(Error, o, "Make it again, and grant the roles' rights on it again.", d.made.function(o.Name, false)...))
		case o.is("public may execute"):
			f := d.finding(Warning, o, "Take the right away from PUBLIC; roles that need it have it by name.", "REVOKE ALL ON FUNCTION "+signature+" FROM PUBLIC")
			f.Why = "The function runs with the owner's rights: every role of the database may change jobs with it."
			found = append(found, f)
		default:
			again := slices.Contains(o.Changed, "arguments") || slices.Contains(o.Changed, "result")
			sql := d.made.function(o.Name, !again)
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

// driftTriggers: missing, changed and disabled triggers of ours.
func driftTriggers(ctx context.Context, x *examination) ([]Finding, error) {
	d, err := x.difference(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, o := range d.objects("trigger") {
		sql := d.made.trigger(o.Name)
		if o.Have != nil {
			sql = append([]string{fmt.Sprintf("DROP TRIGGER %s ON %s", ident(o.rest()), d.quoted(o.Parent))}, sql...)
		}
		f := d.finding(Error, o, "Make it again.", sql...)
		f.Why = "What people change with SQL takes effect through it: without it a schedule goes on as it was before the change."
		found = append(found, f)
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
		changed[o.Name] = o
	}
	reshaped := map[string]bool{} // columns differ: CREATE OR REPLACE refuses
	for _, c := range d.objects("column") {
		if !c.ofView() {
			continue
		}
		reshaped[c.Parent] = true
		if _, known := changed[c.Parent]; !known {
			changed[c.Parent] = object{migrations.Difference{Object: migrations.Object{Kind: "view", Name: c.Parent},
				Want: map[string]string{}, Have: map[string]string{}, Changed: []string{"columns"}}}
		}
	}
	var found []Finding
	for _, view := range slices.Sorted(maps.Keys(changed)) {
		o := changed[view]
		switch {
		case o.Have == nil:
			found = append(found, d.finding(Error, o, "Make it again, and grant the roles' rights on it again.", d.made.view(view, false)...))
		case reshaped[view]:
			f := d.finding(Error, o, "Make it again. It has to be dropped for that: grant the roles' rights on it again.",
				append([]string{"DROP VIEW " + d.quoted(view)}, d.made.view(view, false)...)...)
			f.Summary = fmt.Sprintf("The view %s is not as the migrations made it: its columns differ.", view)
			found = append(found, f)
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
		parameter := o.rest()
		if strings.HasSuffix(parameter, "autovacuum_enabled") {
			continue // autovacuum-off tells
		}
		alter := "ALTER TABLE " + d.quoted(o.Parent)
		severity, sql := Warning, alter+" SET ("+parameter+" = "+o.Want["value"]+")"
		if o.Want == nil {
			severity, sql = Info, alter+" RESET ("+parameter+")"
		}
		f := d.finding(severity, o, "Change it back, unless you have measured that yours is better.", sql)
		f.Subject = "table " + o.Parent
		if o.ofView() {
			f.Subject = "view " + o.Parent
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
		statement := d.made.comment(o.Name)
		if len(statement) == 0 {
			continue // the version table's
		}
		names = append(names, o.Name)
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
