package pgqueue

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// cursor is a place in a list, and which way to go from it.
type cursor struct {
	order  ListOrder
	filter string // a digest: with another filter a page would begin anywhere
	back   bool
	place  jobstore.Place
}

const cursorVersion = "1"

// String is the cursor for a URL or a command line. It is no secret and protects nothing: it only says where to go on.
func (c cursor) String() string {
	way := "n"
	if c.back {
		way = "p"
	}
	text := strings.Join([]string{
		cursorVersion, string(c.order), c.filter, way,
		strconv.FormatInt(c.place.ID, 36), strconv.FormatInt(c.place.At, 36), strconv.Itoa(int(c.place.Priority)),
	}, ",")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCursor reads a cursor of a list in that order, with a filter of that digest.
func parseCursor(text string, order ListOrder, filter string) (cursor, error) {
	const field = "options.cursor"
	c := cursor{order: order, filter: filter}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(raw), ",")
	if err != nil || len(parts) != 7 || parts[0] != cursorVersion || parts[3] != "n" && parts[3] != "p" {
		return c, invalid(field, "is not one that a list returned")
	}
	if parts[1] != string(order) {
		return c, invalid(field, fmt.Sprintf("belongs to the order %q, not to %q", parts[1], string(order)))
	}
	if parts[2] != filter {
		return c, invalid(field, "belongs to another filter")
	}
	var priority int64
	var problem [3]error
	c.back = parts[3] == "p"
	c.place.ID, problem[0] = strconv.ParseInt(parts[4], 36, 64)
	c.place.At, problem[1] = strconv.ParseInt(parts[5], 36, 64)
	priority, problem[2] = strconv.ParseInt(parts[6], 10, 16)
	c.place.Priority = int16(priority)
	for _, err := range problem {
		if err != nil {
			return c, invalid(field, "is not one that a list returned")
		}
	}
	return c, nil
}

// around is the place just before place, seen in the direction of a list: going on from it finds place again.
func around(place jobstore.Place, ascending bool) jobstore.Place {
	if ascending {
		place.ID--
	} else {
		place.ID++
	}
	return place
}

// digest tells one filter from another, in a cursor.
func (f *Filter) digest() (string, error) { return digestOf(f) }

func digestOf(filter any) (string, error) {
	text, err := json.Marshal(filter)
	if err != nil {
		return "", invalid("filter", "cannot be written: "+err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
