package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// request is one line that a process of an engine reads. It answers each with a reply of the same number, in any order.
type request struct {
	ID        int64    `json:"id"`
	Do        string   `json:"do"` // "fill", "enqueue", "singly", "work", "stop", "usage"
	Jobs      int      `json:"jobs,omitempty"`
	Producers int      `json:"producers,omitempty"`
	Stamp     int64    `json:"stamp,omitempty"`
	Due       int64    `json:"due,omitempty"` // microseconds since 1970
	Queue     string   `json:"queue,omitempty"`
	Queues    []string `json:"queues,omitempty"`
	Handlers  int      `json:"handlers,omitempty"`
	Block     bool     `json:"block,omitempty"`
	Report    bool     `json:"report,omitempty"` // say when handlers start
}

// reply is one line that such a process writes: the answer to a request, or, without ID, news of its worker.
type reply struct {
	ID      int64    `json:"id,omitempty"`
	Ready   bool     `json:"ready,omitempty"` // the tables are made; the first line
	Error   string   `json:"error,omitempty"`
	Value   float64  `json:"value,omitempty"`
	Done    int64    `json:"done,omitempty"`    // successes of the worker so far
	Started []starts `json:"started,omitempty"` // since the line before
}

// starts is the stamp of a job and when its handler began, both in microseconds since 1970.
type starts [2]int64

// remote is an engine in a process of its own, which is told what to do by lines of JSON.
type remote struct {
	process *os.Process
	input   io.WriteCloser
	next    atomic.Int64
	gone    chan struct{} // closed when the process has closed its output

	mu      sync.Mutex
	waiting map[int64]chan reply
	load    load
	worker  *running
	done    atomic.Int64
	failure error // why it ended
}

// launch starts a process and waits until it is ready. Its standard error is ours.
func launch(ctx context.Context, command *exec.Cmd) (*remote, error) {
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	r := &remote{process: command.Process, input: input, gone: make(chan struct{}), waiting: map[int64]chan reply{}}
	ready := make(chan reply, 1)
	r.waiting[0] = ready
	go func() {
		err := r.listen(output)
		err = errors.Join(err, command.Wait())
		r.mu.Lock()
		r.failure = errors.Join(errors.New("the process has ended"), err)
		if r.worker != nil {
			signalError(r.worker.ended, r.failure)
		}
		r.mu.Unlock()
		close(r.gone)
	}()
	select {
	case first := <-ready:
		if first.Error != "" {
			r.end()
			return nil, errors.New(first.Error)
		}
		return r, nil
	case <-r.gone:
		return nil, r.failure
	case <-ctx.Done():
		r.kill()
		return nil, ctx.Err()
	}
}

// listen reads until the process closes its output.
func (r *remote) listen(output io.Reader) error {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var news reply
		if err := json.Unmarshal(lines.Bytes(), &news); err != nil {
			return fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		r.mu.Lock()
		if news.ID != 0 || news.Ready || news.Error != "" {
			if to, ok := r.waiting[news.ID]; ok {
				delete(r.waiting, news.ID)
				to <- news
			}
		}
		if worker := r.worker; worker != nil {
			for _, start := range news.Started {
				if r.load.started != nil {
					r.load.started(start[0], time.UnixMicro(start[1]))
				}
			}
			if news.Done > 0 {
				r.done.Store(news.Done)
				worker.note()
			}
		}
		r.mu.Unlock()
	}
	return lines.Err()
}

// ask sends a request and waits for its answer.
func (r *remote) ask(ctx context.Context, ask request) (float64, error) {
	ask.ID = r.next.Add(1)
	answer := make(chan reply, 1)
	text, err := json.Marshal(ask)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	r.waiting[ask.ID] = answer
	_, err = r.input.Write(append(text, '\n'))
	r.mu.Unlock()
	if err != nil {
		return 0, err
	}
	select {
	case got := <-answer:
		if got.Error != "" {
			return 0, fmt.Errorf("%s: %s", ask.Do, got.Error)
		}
		return got.Value, nil
	case <-r.gone:
		return 0, r.failure
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (r *remote) fill(ctx context.Context, lot lot) error {
	if err := lot.plain(); err != nil {
		return err
	}
	_, err := r.ask(ctx, request{Do: "fill", Jobs: lot.jobs})
	return err
}

func (r *remote) enqueue(ctx context.Context, one order) error {
	ask := request{Do: "enqueue", Stamp: one.stamp, Queue: one.queue}
	if !one.due.IsZero() {
		ask.Due = one.due.UnixMicro()
	}
	_, err := r.ask(ctx, ask)
	return err
}

// singly enqueues jobs, a commit each, inside of the process.
func (r *remote) singly(ctx context.Context, producers, jobs int) (time.Duration, error) {
	seconds, err := r.ask(ctx, request{Do: "singly", Producers: producers, Jobs: jobs})
	return time.Duration(seconds * float64(time.Second)), err
}

// cpu is the processor time of the process so far.
func (r *remote) cpu(ctx context.Context) (time.Duration, error) {
	seconds, err := r.ask(ctx, request{Do: "usage"})
	return time.Duration(seconds * float64(time.Second)), err
}

func (r *remote) work(ctx context.Context, load load) (*running, error) {
	worker := &running{done: r.done.Load, moved: make(chan struct{}, 1), ended: make(chan error, 1)}
	worker.halt = func(ctx context.Context) error {
		_, err := r.ask(ctx, request{Do: "stop"})
		r.mu.Lock()
		r.worker = nil
		r.mu.Unlock()
		signalError(worker.ended, nil)
		return err
	}
	r.mu.Lock()
	r.worker, r.load = worker, load
	r.done.Store(0)
	r.mu.Unlock()
	_, err := r.ask(ctx, request{Do: "work", Queues: load.queues, Handlers: load.handlers, Block: load.block, Report: load.started != nil})
	return worker, err
}

// end closes the input, upon which the process ends, and waits for that.
func (r *remote) end() {
	_ = r.input.Close()
	select {
	case <-r.gone:
	case <-time.After(10 * time.Second):
		r.kill()
	}
}

// kill ends the process as a crash would.
func (r *remote) kill() {
	_ = r.process.Kill()
	<-r.gone
}
