package codec

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// DefaultGzipMin is from how many bytes on [Gzip] compresses by default: Postgres itself begins at 2 kB, and what it stores in a row
// of less than that is not much better for being smaller.
const DefaultGzipMin = 2 << 10

// gzipCodec is Gzip.
type gzipCodec struct {
	min     int
	writers sync.Pool // of *gzip.Writer: a new one takes 800 kB
	readers sync.Pool // of *gzip.Reader
}

var _ pgqueue.LocalCodec = (*gzipCodec)(nil)

// Gzip is a codec that compresses values of at least min bytes; zero means [DefaultGzipMin]. A value that does not become smaller, base64
// included, in which all encoded values are stored, stays as it is.
//
// It decompresses no more than the largest value that the client takes ([pgqueue.WithMaxPayload]): a small value that would become
// gigabytes is [pgqueue.ErrTooLarge].
//
// Beside encryption, think about who chooses the payload: the size of a compressed value tells something about it, and to somebody who
// can add text of their own to a secret, and sees the sizes of many, in the end the secret.
func Gzip(min int) pgqueue.Codec {
	if min <= 0 {
		min = DefaultGzipMin
	}
	return &gzipCodec{min: min}
}

// Name implements [pgqueue.Codec].
func (*gzipCodec) Name() string { return "gzip" }

// Local implements [pgqueue.LocalCodec].
func (*gzipCodec) Local() {}

// Encode implements [pgqueue.Codec].
func (g *gzipCodec) Encode(_ context.Context, plain []byte, _ pgqueue.CodecContext) ([]byte, string, error) {
	if len(plain) < g.min {
		return nil, "", nil
	}
	var out bytes.Buffer
	w, ok := g.writers.Get().(*gzip.Writer)
	if ok {
		w.Reset(&out)
	} else {
		w = gzip.NewWriter(&out)
	}
	defer g.writers.Put(w)
	if _, err := w.Write(plain); err != nil {
		return nil, "", fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("gzip: %w", err)
	}
	if out.Len()/3*4 >= len(plain) {
		return nil, "", nil
	}
	return out.Bytes(), "", nil
}

// Decode implements [pgqueue.Codec].
func (g *gzipCodec) Decode(_ context.Context, encoded []byte, _ string, about pgqueue.CodecContext) ([]byte, error) {
	r, ok := g.readers.Get().(*gzip.Reader)
	if !ok {
		r = new(gzip.Reader)
	}
	defer g.readers.Put(r)
	if err := r.Reset(bytes.NewReader(encoded)); err != nil {
		return nil, fmt.Errorf("gunzip: %w: %w", pgqueue.ErrAltered, err)
	}
	// One byte more than allowed tells that there is more, whatever comes behind it.
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(r, int64(about.MaxSize)+1)); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the value is cut off")
		}
		return nil, fmt.Errorf("gunzip: %w: %w", pgqueue.ErrAltered, err)
	}
	if out.Len() > about.MaxSize {
		return nil, fmt.Errorf("gunzip: %w: more than %d bytes", pgqueue.ErrTooLarge, about.MaxSize)
	}
	return out.Bytes(), nil
}
