package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgqueue/pgqueue/migrations"
)

// drift is what the catalog says, and what it says right after the migrations. The checks drift-… each look at one kind of object.
type drift struct {
	schema  string
	actual  map[fact]map[string]string // by object: values by property
	want    map[fact]map[string]string
	unsure  map[fact]bool // properties that cannot be compared on this server
	made    *statements
	skipped string // why nothing was compared
}

const whyDrift = "pgqueue's statements are written and measured for the schema that its migrations make; with another they fail, " +
	"become slow, or lose a guarantee."

// difference returns the comparison, which is made once per examination.
func (x *examination) difference(ctx context.Context) (*drift, error) {
	if x.drifts == nil {
		d, err := x.compare(ctx)
		if err != nil {
			return nil, err
		}
		x.drifts = d
	}
	if x.drifts.skipped != "" {
		x.skip(x.drifts.skipped)
	}
	return x.drifts, nil
}

func (x *examination) compare(ctx context.Context) (*drift, error) {
	d := &drift{schema: x.o.Schema, actual: map[fact]map[string]string{}, want: map[fact]map[string]string{}}
	switch {
	case x.stateErr != nil:
		d.skipped = "the version of the schema is unknown: " + x.stateErr.Error()
	case x.state.Exists && x.state.Version != migrations.Latest:
		d.skipped = fmt.Sprintf("the schema has version %d, and this binary knows what version %d looks like", x.state.Version, migrations.Latest)
	}
	if d.skipped != "" {
		return d, nil
	}
	facts, err := readFacts(ctx, x)
	if err != nil {
		return nil, err
	}
	bodies, err := read[fact](ctx, x, bodiesSQL, x.o.Schema)
	if err != nil {
		return nil, err
	}
	collect(d.actual, append(facts, bodies...))

	want, unsure, err := expectation(x.server.Number / 10000)
	if err != nil {
		return nil, err
	}
	collect(d.want, want)
	d.unsure = unsure
	if d.made, err = newStatements(x.o.Schema); err != nil {
		return nil, err
	}
	for object, properties := range d.want {
		if object.Kind == "function" {
			properties["body"] = d.made.body(object.Name)
		}
	}
	return d, nil
}

func collect(into map[fact]map[string]string, facts []fact) {
	for _, f := range facts {
		if into[f.object()] == nil {
			into[f.object()] = map[string]string{}
		}
		into[f.object()][f.Property] = f.Value
	}
}

// object is one object in both pictures.
type object struct {
	kind, name string
	want, have map[string]string // nil: it is not there
	changed    []string          // properties that differ, sorted
}

// objects returns those of a kind that differ, sorted by name.
func (d *drift) objects(kind string) []object {
	names := map[string]bool{}
	for _, side := range []map[fact]map[string]string{d.want, d.actual} {
		for f := range side {
			if f.Kind == kind {
				names[f.Name] = true
			}
		}
	}
	var found []object
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := fact{Kind: kind, Name: name}
		o := object{kind: kind, name: name, want: d.want[at], have: d.actual[at]}
		properties := map[string]bool{}
		for p := range o.want {
			properties[p] = true
		}
		for p := range o.have {
			properties[p] = true
		}
		for _, p := range slices.Sorted(maps.Keys(properties)) {
			if o.want[p] != o.have[p] && !d.unsure[fact{Kind: kind, Name: name, Property: p}] {
				o.changed = append(o.changed, p)
			}
		}
		if len(o.changed) > 0 {
			found = append(found, o)
		}
	}
	return found
}

// owner is the table of "table.column"; of a name without a dot it is the whole name.
func owner(name string) (table, rest string) {
	table, rest, _ = strings.Cut(name, ".")
	return table, rest
}

// has says whether our object is there.
func (d *drift) has(kind, name string) bool {
	at := fact{Kind: kind, Name: name}
	return d.want[at] != nil && d.actual[at] != nil
}

// differ says in words how an object's properties differ.
func (o object) differ() string {
	var parts []string
	for _, p := range o.changed {
		switch {
		case p == "body":
			parts = append(parts, "its body differs")
		case p == "columns":
			parts = append(parts, "its columns differ")
		case o.kind == "view" && p == "definition":
			parts = append(parts, "its query differs")
		case o.want[p] == "":
			parts = append(parts, fmt.Sprintf("%s is %s and should be unset", p, o.have[p]))
		case o.have[p] == "":
			parts = append(parts, fmt.Sprintf("%s is unset and should be %s", p, o.want[p]))
		default:
			parts = append(parts, fmt.Sprintf("%s is %s and should be %s", p, o.have[p], o.want[p]))
		}
	}
	return strings.Join(parts, "; ")
}

// is says whether the only property that differs is this one.
func (o object) is(property string) bool { return len(o.changed) == 1 && o.changed[0] == property }

// finding makes a finding about an object.
func (d *drift) finding(severity Severity, o object, fix string, sql ...string) Finding {
	f := Finding{Severity: severity, Subject: o.kind + " " + o.name, Why: whyDrift, Fix: fix, FixSQL: sql}
	switch {
	case o.have == nil:
		f.Summary = fmt.Sprintf("The %s %s is missing.", o.kind, o.name)
	case o.want == nil:
		f.Summary = fmt.Sprintf("The %s %s is none of the migrations' making.", o.kind, o.name)
	default:
		f.Summary = fmt.Sprintf("The %s %s is not as the migrations made it: %s.", o.kind, o.name, o.differ())
	}
	return f
}

// quoted is the quoted name of one of our objects, with its schema.
func (d *drift) quoted(name string) string { return ident(d.schema, name) }
