package migrations

import (
	_ "embed" // the expectation
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// expectedText is what readFacts finds where the migrations have just been applied. It is made from the migrations, on a server of each
// major version: go test ./migrations -run TestTheExpectationIsWhatTheMigrationsMake -update
//
//go:embed expected.txt
var expectedText string

// expectedMajors are the versions that expected.txt knows.
func expectedMajors() []int { return []int{14, 15, 16, 17, 18} }

// expectation parses expected.txt for a server's major version. For a version that it does not know, the properties that servers write
// differently from version to version are returned as uncertain instead.
func expectation(major int) (facts []fact, uncertain map[fact]bool, err error) {
	known := slices.Contains(expectedMajors(), major)
	uncertain = map[fact]bool{}
	for n, line := range strings.Split(strings.TrimRight(expectedText, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) < 4 || len(cells) > 5 {
			return nil, nil, fmt.Errorf("expected.txt, line %d: %d cells", n+1, len(cells))
		}
		f := fact{Kind: cells[0], Name: cells[1], Property: cells[2], Value: cells[3]}
		switch {
		case len(cells) == 4 || slices.Contains(strings.Split(cells[4], ","), strconv.Itoa(major)):
			facts = append(facts, f)
		case !known:
			uncertain[f.key()] = true
		}
	}
	return facts, uncertain, nil
}

// Objects lists what the migrations of this binary make, sorted by kind and name: what [Validate] looks for. The daily partitions of
// history are not in it, nor is the version table's schema.
func Objects() []Object {
	facts, _, err := expectation(expectedMajors()[0]) // the objects are the same in every version; a test says so
	if err != nil {
		return nil // a test reads the whole file
	}
	all := gather(facts)
	var objects []Object
	for _, f := range facts {
		if o := all.object(f.Kind, f.Name); len(objects) == 0 || objects[len(objects)-1] != o {
			objects = append(objects, o)
		}
	}
	return objects
}
