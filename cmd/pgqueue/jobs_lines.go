package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// maxLine bounds a line of an import: payload and metadata of the largest size, and what is around them.
const maxLine = 80 << 20

// lineReader reads lines, and ends with a context although reading from a terminal or a pipe cannot be interrupted.
type lineReader struct {
	reader *bufio.Reader
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{reader: bufio.NewReaderSize(in, 1<<20)}
}

// next is the next line without white space around it, or io.EOF. It is valid until the next call.
func (l *lineReader) next(ctx context.Context) ([]byte, error) {
	if l.reader.Buffered() == 0 {
		// Whatever is at the other end of a pipe may write nothing for hours. The goroutine ends with the next line, or with the
		// program, which has nothing else to do by then.
		done := make(chan error, 1)
		go func() {
			_, err := l.reader.Peek(1)
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var line []byte
	for {
		part, err := l.reader.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, errors.New("it is longer than " + byteSize(maxLine))
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		return bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))), nil
	}
}
