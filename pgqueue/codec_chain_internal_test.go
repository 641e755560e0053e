package pgqueue

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

// hangingCodec hangs until it is let go, or ends its goroutine.
type hangingCodec struct {
	begun, release chan struct{}
	exit           bool
}

func (*hangingCodec) Name() string { return "hanging" }
func (h *hangingCodec) Encode(context.Context, []byte, CodecContext) ([]byte, string, error) {
	if h.exit {
		runtime.Goexit()
	}
	h.begun <- struct{}{}
	<-h.release
	return []byte("x"), "", nil
}
func (h *hangingCodec) Decode(context.Context, []byte, string, CodecContext) ([]byte, error) {
	return nil, errors.New("not here")
}

// However often a codec that hangs is called, no more than codecCalls goroutines are left with it; and when it answers again, so
// does the client.
func TestHangingCodecHoldsBoundedGoroutines(t *testing.T) {
	t.Parallel()
	hanging := &hangingCodec{begun: make(chan struct{}, codecCalls+1), release: make(chan struct{})}
	c, err := newCodecs([]Codec{hanging}, false, "pgqueue", 1000, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range codecCalls {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := c.seal(ctx, FieldPayload, "kind", []byte("{}"))
			ended <- err
		}()
		<-hanging.begun
		cancel()
		if err := <-ended; !errors.Is(err, errCodecStuck) || !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := c.seal(ctx, FieldPayload, "kind", []byte("{}"))
		ended <- err
	}()
	select {
	case <-hanging.begun:
		t.Error("one call more than allowed has begun")
	case err := <-ended:
		t.Errorf("did not wait for the calls before: %v", err)
	default:
	}
	cancel()
	if err := <-ended; err == nil || len(c.calls) != codecCalls {
		t.Errorf("error %v with %d calls under way", err, len(c.calls))
	}
	close(hanging.release)
	if sealed, err := c.seal(context.Background(), FieldPayload, "kind", []byte("{}")); err != nil || !strings.Contains(string(sealed), `"hanging"`) {
		t.Errorf("%s, %v", sealed, err)
	}
}

func TestCodecThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	c, err := newCodecs([]Codec{&hangingCodec{exit: true}}, false, "pgqueue", 1000, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.seal(context.Background(), FieldPayload, "kind", []byte("{}")); !errors.Is(err, errCodecPanics) {
		t.Error(err)
	}
	if len(c.calls) != 0 {
		t.Error("the call counts still")
	}
}

// keyedCodec has a key of some name.
type keyedCodec struct{ name, key string }

func (k keyedCodec) Name() string { return k.name }
func (k keyedCodec) Encode(_ context.Context, plain []byte, _ CodecContext) ([]byte, string, error) {
	return plain, k.key, nil
}
func (k keyedCodec) Decode(_ context.Context, encoded []byte, _ string, _ CodecContext) ([]byte, error) {
	return encoded, nil
}

// What could not be stored, or not be told apart afterwards, is refused before.
func TestNamesOfKeys(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]Codec{
		"two keys":  {keyedCodec{"a", "k"}, keyedCodec{"b", "l"}},
		"NUL":       {keyedCodec{"a", "k\x00"}},
		"no UTF-8":  {keyedCodec{"a", "\xff"}},
		"quote":     {keyedCodec{"a", `"`}},
		"too long":  {keyedCodec{"a", strings.Repeat("k", 129)}},
		"one is ok": {keyedCodec{"a", "k"}, keyedCodec{"b", ""}},
	} {
		c, err := newCodecs(list, false, "pgqueue", 1000, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.seal(context.Background(), FieldPayload, "kind", []byte("{}")); (err == nil) != (name == "one is ok") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A codec that does not keep to the bound gets no further than that.
func TestDecodedValuesAreBounded(t *testing.T) {
	t.Parallel()
	c, err := newCodecs([]Codec{keyedCodec{"a", "k"}}, false, "pgqueue", 1000, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for size, fits := range map[int]bool{1000: true, 1001: false} {
		sealed, err := c.seal(context.Background(), FieldPayload, "kind", []byte(`"`+strings.Repeat("x", size-2)+`"`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.open(context.Background(), FieldPayload, "kind", sealed, false); errors.Is(err, ErrTooLarge) == fits {
			t.Errorf("%d bytes: error %v", size, err)
		}
	}
}
