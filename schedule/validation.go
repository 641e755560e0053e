package schedule

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// checkText checks a name: not empty, bounded, storable.
func checkText(field, value string) *ConfigError {
	switch {
	case value == "":
		return invalid(field, "must not be empty")
	case len(value) > maxNameBytes:
		return invalid(field, fmt.Sprintf("is too long: %d bytes where %d are allowed", len(value), maxNameBytes))
	case !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0:
		return invalid(field, "must be UTF-8 without NUL")
	}
	return nil
}

// runsOn refuses a querier that there is none.
func runsOn(q pgqueue.Querier) error {
	if v := reflect.ValueOf(q); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return invalid("querier", "must not be nil")
	}
	return nil
}

// checkCall checks what every call about one schedule has.
func checkCall(q pgqueue.Querier, name string) error {
	if err := runsOn(q); err != nil {
		return err
	}
	if err := checkText("name", name); err != nil {
		return err
	}
	return nil
}

// checkLimit checks how many rows a page is to have. What is more than a page holds is cut, and no error.
func checkLimit(limit int) error {
	if limit < 0 {
		return invalid("limit", fmt.Sprintf("must not be negative, is %d", limit))
	}
	return nil
}
