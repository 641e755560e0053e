package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Log is the events of one process. It is safe for concurrent use.
type Log struct {
	process string
	mu      sync.Mutex
	file    *os.File
	err     error
}

const suffix = ".events"

// Open begins the log of a process in a folder. The process's name must be unique in a run.
func Open(folder, process string) (*Log, error) {
	file, err := os.OpenFile(filepath.Join(folder, process+suffix), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a log: %w", err)
	}
	return &Log{process: process, file: file}, nil
}

// Add appends an event. When it returns the event is the kernel's, and survives this process. A failure is kept for Close: the caller
// is in the middle of something that it must not disturb.
func (l *Log) Add(event Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	event.At, event.Process = Now(), l.process // under the lock, so that a file is in order
	line, err := json.Marshal(event)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.err = errors.Join(l.err, err)
}

// Close ends the log, and tells whether an event could not be written.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.file.Close())
}

// Read reads all logs of a folder, in the order in which things happened. The last line of a file may be torn, where its process was
// killed while it wrote; any other line that cannot be read is an error.
func Read(folder string) ([]Event, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil {
		return nil, err
	}
	var all []Event
	for _, path := range files {
		events, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
		}
		all = append(all, events...)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

func readFile(path string) (events []Event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil // whatever is in line was torn
		}
		if err != nil {
			return nil, err
		}
		var event Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(events)+1, err)
		}
		events = append(events, event)
	}
}

// Now is the time of an event: the machine's clock, which all processes of a run share. No fault of a run may set it; a worker whose
// clock is wrong gets a wrong one of its own.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
