package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
)

// drift is what differs from what the migrations make, as migrations.Validate tells it. The checks drift-… each look at one kind of object.
type drift struct {
	schema  string
	all     []object
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
	d := &drift{schema: x.o.Schema}
	switch {
	case x.stateErr != nil:
		d.skipped = "the version of the schema is unknown: " + x.stateErr.Error()
	case x.state.Exists && x.state.Version != migrations.Latest:
		d.skipped = fmt.Sprintf("the schema has version %d, and this binary knows what version %d looks like", x.state.Version, migrations.Latest)
	}
	if d.skipped != "" {
		return d, nil
	}
	found, err := migrations.Validate(ctx, bounded{x}, x.o.Schema)
	if err != nil {
		return nil, err
	}
	for _, list := range [][]migrations.Difference{found.Missing, found.Extra, found.Changed} {
		for _, difference := range list {
			d.all = append(d.all, object{difference})
		}
	}
	slices.SortStableFunc(d.all, func(a, b object) int { return strings.Compare(a.Name, b.Name) })
	d.made, err = newStatements(x.o.Schema)
	return d, err
}

// bounded is the database with the timeouts of this examination.
type bounded struct{ x *examination }

// BeginTx begins a transaction under the timeouts.
func (b bounded) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := b.x.db.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := b.x.prepare(ctx, tx, textsSQL+timeoutsSQL, safePath); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // nothing was written
		return nil, err
	}
	return tx, nil
}

// object is one object that differs.
type object struct{ migrations.Difference }

// objects returns those of a kind that differ, sorted by name.
func (d *drift) objects(kind string) []object {
	var found []object
	for _, o := range d.all {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// rest is the name of a column, constraint or storage parameter without its table.
func (o object) rest() string { return strings.TrimPrefix(o.Name, o.Parent+".") }

// ofView says whether the object belongs to a view.
func (o object) ofView() bool { return slices.Contains(ownNames("view"), o.Parent) }

// ownNames returns the names of what the migrations make of a kind: "table", "view", "function" (without arguments), "trigger" (with its
// table's name before it). Without the daily partitions of history.
func ownNames(kind string) []string {
	var names []string
	for _, o := range migrations.Objects() {
		if name, _, _ := strings.Cut(o.Name, "("); o.Kind == kind && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// is says whether the only property that differs is this one.
func (o object) is(property string) bool { return len(o.Changed) == 1 && o.Changed[0] == property }

// finding makes a finding about an object.
func (d *drift) finding(severity Severity, o object, fix string, sql ...string) Finding {
	f := Finding{Severity: severity, Subject: o.Object.String(), Why: whyDrift, Fix: fix, FixSQL: sql}
	switch {
	case o.Have == nil:
		f.Summary = fmt.Sprintf("The %s is missing.", o.Object)
	case o.Want == nil:
		f.Summary = fmt.Sprintf("The %s is none of the migrations' making.", o.Object)
	default:
		f.Summary = fmt.Sprintf("The %s is not as the migrations made it: %s.", o.Object, o.Explain())
	}
	return f
}

// quoted is the quoted name of one of our objects, with its schema.
func (d *drift) quoted(name string) string { return ident(d.schema, name) }
