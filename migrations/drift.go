package migrations

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Object names an object of the schema.
type Object struct {
	// Kind is "table", "view", "column", "constraint", "index", "sequence", "function", "storage" (a storage parameter, or an option of a
	// view) or "comment"; and "schema" for the schema itself, whose one property is its version.
	Kind string
	// Name is the object's name without the schema. Columns, constraints and storage parameters have that of their table or view before
	// them ("jobs.key"), functions have their arguments behind it ("goodbye(id text)"), and comments what they are about ("table jobs").
	Name string
	// Parent is the table or view to which a column, constraint, index or storage parameter belongs; else empty.
	Parent string
}

// String is the kind and the name.
func (o Object) String() string { return o.Kind + " " + o.Name }

// Difference is one object that is not as this binary's migrations make it.
type Difference struct {
	Object
	// Want and Have are all properties of the object by name: as the migrations make it, and as it is. nil = there is no such object.
	Want, Have map[string]string
	// Changed are the names of the properties that differ, sorted.
	Changed []string
}

// String says in one line what differs.
func (d Difference) String() string {
	switch {
	case d.Have == nil:
		return "missing: " + d.Object.String()
	case d.Want == nil:
		return "not ours: " + d.Object.String()
	}
	return "changed: " + d.Object.String() + ": " + d.Explain()
}

// Explain says in words how the properties differ: "type is integer and should be bigint".
func (d Difference) Explain() string {
	var parts []string
	for _, p := range d.Changed {
		want, have := d.Want[p], d.Have[p]
		switch {
		case p == "body":
			parts = append(parts, "its body differs")
		case d.Kind == "view" && p == "definition":
			parts = append(parts, "its query differs")
		case want == "":
			parts = append(parts, fmt.Sprintf("%s is %s and should be unset", p, have))
		case have == "":
			parts = append(parts, fmt.Sprintf("%s is unset and should be %s", p, want))
		default:
			parts = append(parts, fmt.Sprintf("%s is %s and should be %s", p, have, want))
		}
	}
	return strings.Join(parts, "; ")
}

// Drift is how a schema differs from what this binary's migrations make. Each list is sorted by kind and name. The zero Drift means that
// there is no difference.
type Drift struct {
	// Missing are objects of ours that are not there. What belongs to a missing table is not listed beside it.
	Missing []Difference
	// Extra are columns, constraints, indexes and storage parameters that others put on our tables, and functions of our names with other
	// arguments. Other tables, views and functions in the schema are nobody's business.
	Extra []Difference
	// Changed are objects of ours that are not as they were made.
	Changed []Difference
}

// Empty says that there is no difference.
func (d Drift) Empty() bool { return len(d.Missing)+len(d.Extra)+len(d.Changed) == 0 }

// String lists the differences, one a line; it is empty if there is none.
func (d Drift) String() string {
	var b strings.Builder
	for _, list := range [][]Difference{d.Missing, d.Extra, d.Changed} {
		for _, difference := range list {
			b.WriteString(difference.String())
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// add puts a difference into its list.
func (d *Drift) add(difference Difference) {
	switch {
	case difference.Have == nil:
		d.Missing = append(d.Missing, difference)
	case difference.Want == nil:
		d.Extra = append(d.Extra, difference)
	default:
		d.Changed = append(d.Changed, difference)
	}
}

// picture is all facts of a schema, by kind, name and property.
type picture map[string]map[string]map[string]string

func gather(facts []fact) picture {
	p := picture{}
	for _, f := range facts {
		if p[f.Kind] == nil {
			p[f.Kind] = map[string]map[string]string{}
		}
		if p[f.Kind][f.Name] == nil {
			p[f.Kind][f.Name] = map[string]string{}
		}
		p[f.Kind][f.Name][f.Property] = f.Value
	}
	return p
}

// object names an object of the picture.
func (p picture) object(kind, name string) Object {
	o := Object{Kind: kind, Name: name}
	switch kind {
	case "column", "constraint", "storage", "trigger":
		o.Parent, _, _ = strings.Cut(name, ".")
	case "index":
		o.Parent = p[kind][name]["table"]
	}
	return o
}

// compare finds the differences that count.
func compare(want, have picture, uncertain map[fact]bool) Drift {
	var drift Drift
	c := comparison{want: want, have: have}
	kinds := map[string]bool{}
	for _, p := range []picture{want, have} {
		for kind := range p {
			kinds[kind] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		names := map[string]bool{}
		for _, p := range []picture{want, have} {
			for name := range p[kind] {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			d := Difference{Object: want.object(kind, name), Want: want[kind][name], Have: have[kind][name]}
			if d.Want == nil {
				d.Object = have.object(kind, name)
			}
			properties := map[string]bool{}
			for _, side := range []map[string]string{d.Want, d.Have} {
				for property, value := range side {
					if (d.Want[property] != value || d.Have[property] != value) && !uncertain[fact{Kind: kind, Name: name, Property: property}] {
						properties[property] = true
					}
				}
			}
			d.Changed = slices.Sorted(maps.Keys(properties))
			if len(d.Changed) > 0 && c.counts(&d) {
				drift.add(d)
			}
		}
	}
	return drift
}

// comparison knows which differences count.
type comparison struct{ want, have picture }

// counts leaves out what belongs to somebody else, what is told with the table or constraint that it belongs to, and what docs/roles.md
// offers as a choice.
func (c comparison) counts(d *Difference) bool {
	if d.Parent != "" && !c.both("table", d.Parent) && !c.both("view", d.Parent) {
		return false
	}
	// The columns and constraints of a partition are its parent's, also while somebody has detached it.
	if (d.Kind == "column" || d.Kind == "constraint") && c.want["table"][d.Parent]["partition"] != "" {
		return false
	}
	switch d.Kind {
	case "table", "view", "sequence", "trigger":
		return d.Want != nil
	case "index": // those behind a constraint are the constraint's
		return d.Want["constraint"] == "" && (d.Want != nil || d.Have["constraint"] == "")
	case "storage":
		return !strings.HasSuffix(d.Name, ".security_invoker")
	case "function":
		if d.Want == nil {
			return c.ourName(d.Name)
		}
		// EXECUTE that was taken from PUBLIC.
		if d.Have != nil && d.Want["public may execute"] == "true" {
			d.Changed = slices.DeleteFunc(d.Changed, func(p string) bool { return p == "public may execute" })
		}
		return len(d.Changed) > 0
	case "comment":
		kind, name, _ := strings.Cut(d.Name, " ")
		return d.Have == nil && c.both(kind, name)
	}
	return true
}

// both says whether an object of ours is there.
func (c comparison) both(kind, name string) bool {
	return c.want[kind][name] != nil && c.have[kind][name] != nil
}

// ourName says whether we have a function of this name, whatever its arguments.
func (c comparison) ourName(signature string) bool {
	name, _, _ := strings.Cut(signature, "(")
	for ours := range c.want["function"] {
		if strings.HasPrefix(ours, name+"(") {
			return true
		}
	}
	return false
}
