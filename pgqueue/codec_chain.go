package pgqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// codecTimeout bounds one call of a codec that may wait.
	codecTimeout = 10 * time.Second
	// codecCalls is how many such calls may be under way in one client: those that are given up count until they end.
	codecCalls = 64
)

// codecs are those of a client, and what it does with them. A nil *codecs has none: it encodes nothing, and decodes plaintext.
type codecs struct {
	list    []Codec
	local   []bool // by position in list
	schema  string
	maxSize int // bytes
	strict  bool
	logger  *slog.Logger
	calls   chan struct{} // of codecs that are not local
}

// newCodecs checks the codecs; nil if there are none.
func newCodecs(list []Codec, strict bool, schema string, maxSize int, logger *slog.Logger) (*codecs, error) {
	if len(list) == 0 {
		if strict {
			return nil, invalid("codec", "must be given with WithStrictCodec")
		}
		return nil, nil //nolint:nilnil // none, and no error
	}
	if len(list) > maxCodecs {
		return nil, invalid("codec", fmt.Sprintf("must be at most %d, are %d", maxCodecs, len(list)))
	}
	c := &codecs{list: list, schema: schema, maxSize: maxSize, strict: strict, logger: logger, calls: make(chan struct{}, codecCalls)}
	names := map[string]bool{}
	for i, codec := range list {
		field := fmt.Sprintf("codec[%d]", i)
		if isNil(codec) {
			return nil, invalid(field, "must not be nil")
		}
		name := codec.Name()
		if !validCodecName(name) {
			return nil, invalid(field, fmt.Sprintf("must have a name of 1 to %d of a-z, 0-9, dot, dash and underscore, has %q", maxCodecName, name))
		}
		if names[name] {
			return nil, invalid(field, fmt.Sprintf("is the second one of the name %q", name))
		}
		names[name] = true
		_, local := codec.(LocalCodec)
		c.local = append(c.local, local)
	}
	return c, nil
}

// about is what codecs are told of a value.
func (c *codecs) about(field CodecField, kind string) CodecContext {
	return CodecContext{Schema: c.schema, Kind: kind, Field: field, MaxSize: c.maxSize}
}

// seal encodes a value: an envelope, or plain itself where no codec wants it.
func (c *codecs) seal(ctx context.Context, field CodecField, kind string, plain []byte) ([]byte, error) {
	if c == nil {
		return plain, nil
	}
	about := c.about(field, kind)
	sealed := envelope{Data: plain}
	for i, codec := range c.list {
		data, key, err := c.call(ctx, i, func(ctx context.Context) ([]byte, string, error) { return codec.Encode(ctx, sealed.Data, about) })
		if err == nil && key != "" && sealed.Key != "" {
			err = errors.New("a codec before this one has a key, and there is room for one")
		}
		if err == nil && !validKeyName(key) {
			err = fmt.Errorf("the name of the key is longer than %d bytes, or has others than printable ones of ASCII without quotes", maxKeyName)
		}
		if err != nil {
			return nil, &CodecError{Field: field, Kind: kind, Codec: codec.Name(), cause: err}
		}
		if data == nil {
			continue
		}
		sealed.Codec, sealed.Data = append(sealed.Codec, codec.Name()), data
		if key != "" {
			sealed.Key = key
		}
	}
	if len(sealed.Codec) == 0 {
		return plain, nil
	}
	return sealed.bytes(), nil
}

// open decodes a stored value; plaintext it returns as it is, unless strict. It never returns neither.
func (c *codecs) open(ctx context.Context, field CodecField, kind string, stored []byte, strict bool) ([]byte, error) {
	fail := func(found *envelope, name string, err error) ([]byte, error) {
		failed := &CodecError{Decoding: true, Field: field, Kind: kind, Codec: name, cause: err}
		if found != nil {
			failed.Key = found.Key
		}
		return nil, failed
	}
	var found *envelope
	if isEnvelope(stored) {
		var err error
		if found, err = parseEnvelope(stored); err != nil {
			return fail(nil, "", err)
		}
	}
	if strict && (found == nil || found.Codec[len(found.Codec)-1] != c.list[len(c.list)-1].Name()) {
		return fail(nil, "", ErrNotEncoded)
	}
	if found == nil {
		return stored, nil
	}
	if c == nil {
		return fail(found, found.Codec[len(found.Codec)-1], ErrNoCodec)
	}
	about := c.about(field, kind)
	data := found.Data
	for n := len(found.Codec) - 1; n >= 0; n-- {
		name := found.Codec[n]
		i := c.find(name)
		if i < 0 {
			return fail(found, name, ErrNoCodec)
		}
		plain, _, err := c.call(ctx, i, func(ctx context.Context) ([]byte, string, error) {
			plain, err := c.list[i].Decode(ctx, data, found.Key, about)
			return plain, "", err
		})
		if err == nil && n == 0 && len(plain) > c.maxSize {
			err = ErrTooLarge
		}
		if err == nil && n == 0 && field != FieldError && !json.Valid(plain) {
			err = errNoJSON
		}
		if err != nil {
			return fail(found, name, err)
		}
		data = plain
	}
	return data, nil
}

// find is the position of the codec of that name, or -1.
func (c *codecs) find(name string) int {
	for i, codec := range c.list {
		if codec.Name() == name {
			return i
		}
	}
	return -1
}

// call calls a codec, and survives it.
func (c *codecs) call(ctx context.Context, i int, fn func(context.Context) ([]byte, string, error)) ([]byte, string, error) {
	if c.local[i] {
		return contained(ctx, fn)
	}
	if err := ctx.Err(); err != nil { // do not begin what would be given up
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, codecTimeout)
	defer cancel()
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, "", fmt.Errorf("%w, nor did %d calls before: %w", errCodecStuck, codecCalls, ctx.Err())
	}
	type answer struct {
		data []byte
		key  string
		err  error
	}
	answers := make(chan answer, 1)
	// It is given up if it does not end in time. There are never more than codecCalls of them.
	go func() {
		given := answer{err: errCodecPanics} // also where it ends its goroutine
		defer func() {
			<-c.calls
			answers <- given
		}()
		given.data, given.key, given.err = contained(ctx, fn)
	}()
	select {
	case given := <-answers:
		return given.data, given.key, given.err
	case <-ctx.Done():
		return nil, "", fmt.Errorf("%w: %w", errCodecStuck, ctx.Err())
	}
}

// contained makes an error of a panic. What was panicked with may quote a value, and is not told.
func contained(ctx context.Context, fn func(context.Context) ([]byte, string, error)) (data []byte, key string, err error) {
	defer func() {
		if v := recover(); v != nil {
			data, key, err = nil, "", fmt.Errorf("%w with %T", errCodecPanics, v)
		}
	}()
	return fn(ctx)
}
