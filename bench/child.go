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
	"time"
)

// childVariable holds what a process of this program is to be instead of a bench: a child.
const childVariable = "PGQUEUE_BENCH_CHILD"

// newsEvery is how often a child tells what its worker has done.
const newsEvery = 5 * time.Millisecond

// child says which engine a process runs, on which database.
type child struct {
	Engine  string `json:"engine"`
	History bool   `json:"history"`
	URL     string `json:"url"`
	Pool    int    `json:"pool"`
}

// launchChild runs an engine in another process of this program, or, where it is written for Node, in one of Node.
func launchChild(ctx context.Context, engine engine, db *database, pool int) (*remote, error) {
	if engine.needs == needsNode {
		return launchNode(ctx, engine, db.url, pool)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(child{Engine: engine.name(), History: engine.history, URL: db.url, Pool: pool})
	if err != nil {
		return nil, err
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), childVariable+"="+string(text))
	return launch(ctx, command)
}

// serveChild answers requests until its input ends.
func serveChild(ctx context.Context, text string, input io.Reader, output io.Writer) error {
	var self child
	if err := json.Unmarshal([]byte(text), &self); err != nil {
		return fmt.Errorf("%s: %w", childVariable, err)
	}
	db, err := connect(ctx, self.URL, wiring{pool: self.Pool})
	if err != nil {
		return err
	}
	defer db.drop()
	for _, engine := range allEngines() {
		if engine.name() != self.Engine || engine.history != self.History {
			continue
		}
		system, err := engine.open(ctx, db)
		if err != nil {
			return err
		}
		defer system.close(context.WithoutCancel(ctx))
		s := &servant{system: system, out: json.NewEncoder(output)}
		return s.serve(ctx, input)
	}
	return fmt.Errorf("there is no engine %q", self.Engine)
}

// servant is the other end of a remote.
type servant struct {
	system system

	control sync.Mutex // held while a worker is started or stopped

	mu     sync.Mutex
	out    *json.Encoder
	starts []starts
	worker *running
	quit   context.CancelFunc // of the news
	told   chan struct{}      // closed when the last news is out
}

func (s *servant) say(news reply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Encode(news)
}

func (s *servant) serve(ctx context.Context, input io.Reader) error {
	if err := s.say(reply{Ready: true}); err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	for lines := bufio.NewScanner(input); lines.Scan(); {
		var ask request
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			return err
		}
		group.Go(func() {
			value, err := s.do(ctx, ask)
			answer := reply{ID: ask.ID, Value: value}
			if err != nil {
				answer.Error = err.Error()
			}
			_ = s.say(answer) // nobody listens any more: the input ends too
		})
	}
	group.Wait()
	return s.stop(ctx)
}

func (s *servant) do(ctx context.Context, ask request) (float64, error) {
	switch ask.Do {
	case "fill":
		return 0, s.system.fill(ctx, lot{jobs: ask.Jobs})
	case "enqueue":
		able, ok := s.system.(producer)
		if !ok {
			return 0, errors.New("this engine enqueues in bulk only")
		}
		one := order{stamp: ask.Stamp, queue: ask.Queue}
		if ask.Due != 0 {
			one.due = time.UnixMicro(ask.Due)
		}
		return 0, able.enqueue(ctx, one)
	case "work":
		return 0, s.work(ctx, ask)
	case "stop":
		return 0, s.stop(ctx)
	case "usage":
		used, err := processorTime()
		return used.Seconds(), err
	}
	return 0, fmt.Errorf("there is no request %q", ask.Do)
}

func (s *servant) work(ctx context.Context, ask request) error {
	load := load{queues: ask.Queues, handlers: ask.Handlers, block: ask.Block}
	if ask.Report {
		load.started = func(stamp int64, at time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.starts = append(s.starts, starts{stamp, at.UnixMicro()})
		}
	}
	s.control.Lock()
	defer s.control.Unlock()
	worker, err := s.system.work(ctx, load)
	if err != nil {
		return err
	}
	telling, quit := context.WithCancel(ctx)
	s.worker, s.quit, s.told = worker, quit, make(chan struct{})
	go func() {
		defer close(s.told)
		for last := int64(0); ; {
			ended := pause(telling, newsEvery) != nil
			done := worker.done()
			s.mu.Lock()
			begun := s.starts
			s.starts = nil
			s.mu.Unlock()
			if done != last || len(begun) > 0 {
				last = done
				_ = s.say(reply{Done: done, Started: begun})
			}
			if ended {
				return
			}
		}
	}()
	return nil
}

// stop ends the worker, if there is one.
func (s *servant) stop(ctx context.Context) error {
	s.control.Lock()
	defer s.control.Unlock()
	if s.worker == nil {
		return nil
	}
	err := s.worker.stop(ctx)
	s.quit()
	<-s.told
	s.worker = nil
	return err
}
