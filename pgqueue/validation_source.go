package pgqueue

import (
	"encoding"
	"encoding/json"
	"reflect"
	"time"
	"unicode/utf8"
)

// onlyRawJSON tells whether every string that encoding/json writes for value is valid UTF-8 as far as can be seen, so
// that an escape \ufffd in the output was brought along by a json.RawMessage. Where a type writes itself, nothing can be
// seen and the answer is no. It is only asked about the rare output that has such an escape.
func onlyRawJSON(value any) bool {
	return validStrings(reflect.ValueOf(value))
}

//nolint:gochecknoglobals // types, only ever read
var (
	rawMessageType    = reflect.TypeFor[json.RawMessage]()
	timeType          = reflect.TypeFor[time.Time]()
	jsonMarshalerType = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

// validStrings walks what encoding/json walks. Cycles cannot occur: json.Marshal has been over the same value.
func validStrings(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	t := v.Type()
	if t == rawMessageType || t == timeType {
		return true
	}
	if kind := v.Kind(); kind == reflect.Pointer || kind == reflect.Interface {
		return v.IsNil() || validStrings(v.Elem())
	}
	for _, marshaler := range []reflect.Type{jsonMarshalerType, textMarshalerType} {
		if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
			return false
		}
	}
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			if tag := field.Tag.Get("json"); tag == "-" || !field.IsExported() && !field.Anonymous {
				continue
			}
			if !validStrings(v.Field(i)) {
				return false
			}
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			if !validStrings(entry.Key()) || !validStrings(entry.Value()) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return true // written as base64 or as numbers
		}
		for i := range v.Len() {
			if !validStrings(v.Index(i)) {
				return false
			}
		}
	}
	return true
}
