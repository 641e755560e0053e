package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a static image has none of its own, and a zone that is not found must not become UTC
)

// LoadZone finds an IANA zone by its name, such as "Europe/Copenhagen"; the empty name is UTC. The data is part of the program, so
// it is found in an empty image too; where the machine has data of its own, that is taken, as [time.LoadLocation] does. "Local" is
// refused: it is a different zone in each process.
func LoadZone(name string) (*time.Location, error) {
	switch {
	case name == "":
		return time.UTC, nil
	case strings.EqualFold(name, "local"):
		return nil, fmt.Errorf("%q means another zone in each process; name one, such as Europe/Copenhagen", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone that is known here; it is named as in Europe/Copenhagen", name)
	}
	return zone, nil
}
