package sqltx

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// arguments makes of pgqueue's arguments what every driver sends: text, numbers, nil. Each parameter of the statements has
// a cast ($2::text[]), so an array may travel as its literal.
func arguments(args []any) ([]any, error) {
	translated := make([]any, len(args))
	for i, arg := range args {
		value, err := argument(arg)
		if err != nil {
			return nil, fmt.Errorf("sqltx: argument %d: %w", i+1, err)
		}
		translated[i] = value
	}
	return translated, nil
}

func argument(arg any) (any, error) {
	switch value := arg.(type) {
	case nil:
		return nil, nil
	case time.Time:
		return timestamp(value), nil
	case time.Duration:
		return nil, fmt.Errorf("a duration has no type in Postgres: %s", value)
	case json.RawMessage: // bytes would be sent as bytea
		if value == nil {
			return nil, nil
		}
		return string(value), nil
	case []byte:
		return value, nil
	case driver.Valuer:
		return value, nil
	}
	value := reflect.ValueOf(arg)
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return nil, nil
		}
		return argument(value.Elem().Interface())
	case reflect.Slice:
		return arrayLiteral(value)
	case reflect.String:
		return value.String(), nil
	case reflect.Bool:
		return value.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return value.Int(), nil
	case reflect.Float32, reflect.Float64:
		return value.Float(), nil
	}
	return nil, fmt.Errorf("of type %T cannot be sent", arg)
}

// arrayLiteral writes a slice as the text of a Postgres array: https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO.
// A nil slice is NULL, as in pgx.
func arrayLiteral(slice reflect.Value) (any, error) {
	if slice.IsNil() {
		return nil, nil
	}
	var text strings.Builder
	text.WriteByte('{')
	for i := range slice.Len() {
		if i > 0 {
			text.WriteByte(',')
		}
		element, err := argument(slice.Index(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		switch value := element.(type) {
		case nil:
			text.WriteString("NULL")
		case string:
			quote(&text, value)
		case bool:
			text.WriteString(strconv.FormatBool(value))
		case int64:
			text.WriteString(strconv.FormatInt(value, 10))
		case float64:
			text.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
		default:
			return nil, fmt.Errorf("element %d of type %s cannot be sent", i, slice.Type().Elem())
		}
	}
	text.WriteByte('}')
	return text.String(), nil
}

// quote writes one element; inside quotes only the quote and the backslash mean something.
func quote(text *strings.Builder, value string) {
	text.WriteByte('"')
	for i := range len(value) {
		if value[i] == '"' || value[i] == '\\' {
			text.WriteByte('\\')
		}
		text.WriteByte(value[i])
	}
	text.WriteByte('"')
}

// timestamp is a time in a form that no DateStyle reads in another way.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z07:00") }
