package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// send is one request as the provider saw it.
type send struct {
	worker     int // process id
	attempt    int // the claim's number
	begun      time.Time
	ended      time.Time
	answer     answer
	unanswered bool // the client went away before there was an answer
}

// account is what the provider knows of one idempotency key.
type account struct {
	key          string
	notification int64
	provider     string
	receipt      string // empty: not accepted
	accepted     int    // effects at the recipient. A provider that heeds the key never makes a second
	sends        []*send
}

// providerServer plays all three providers, and keeps the log that the proof is made of.
type providerServer struct {
	seed   uint64
	server *http.Server
	url    string
	ended  chan struct{} // closed when the server is gone

	mutex    sync.Mutex
	accounts map[string]*account
	order    []*account
	underWay map[int]int   // sends by process
	met      map[int64]int // sends by notification, under whatever key
}

func startProviders(seed uint64) (*providerServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the providers: %w", err)
	}
	p := &providerServer{
		seed: seed, url: "http://" + listener.Addr().String(), ended: make(chan struct{}),
		accounts: map[string]*account{}, underWay: map[int]int{}, met: map[int64]int{},
	}
	p.server = &http.Server{Handler: p}
	go func() {
		defer close(p.ended)
		_ = p.server.Serve(listener) // ErrServerClosed
	}()
	return p, nil
}

func (p *providerServer) close() {
	_ = p.server.Close() // what hangs, hangs no longer
	<-p.ended
}

// latency of a provider that works.
func latency(provider string) time.Duration {
	return map[string]time.Duration{"email": 12 * time.Millisecond, "sms": 5 * time.Millisecond}[provider] + 2*time.Millisecond
}

// ServeHTTP takes one message.
func (p *providerServer) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	notification, err := strconv.ParseInt(request.PostFormValue("notification"), 10, 64) // reads the whole body, so a client that goes is noticed
	key := request.Header.Get(headerKey)
	if err != nil || key == "" {
		http.Error(out, "notification and key are required", http.StatusBadRequest)
		return
	}
	s := &send{begun: time.Now()}
	s.worker, _ = strconv.Atoi(request.Header.Get(headerWorker))
	s.attempt, _ = strconv.Atoi(request.Header.Get(headerAttempt))
	receipt := p.begin(key, notification, request.URL.Path[1:], s)
	defer p.end(s, request)

	work := time.NewTimer(latency(request.URL.Path[1:]))
	defer work.Stop()
	switch s.answer {
	case hang, lose:
		<-request.Context().Done()
		return
	case accept, again:
		select {
		case <-work.C:
		case <-request.Context().Done(): // accepted all the same
			return
		}
		_ = json.NewEncoder(out).Encode(map[string]string{"receipt": receipt}) // a client that went is the client's loss
	case refuse:
		http.Error(out, "no such recipient", http.StatusUnprocessableEntity)
	case limit:
		out.Header().Set("Retry-After", "1")
		http.Error(out, "too many", http.StatusTooManyRequests)
	case breakDown:
		http.Error(out, "out of order", http.StatusServiceUnavailable)
	}
}

// begin decides what becomes of a send, before anything can go wrong with its answer.
func (p *providerServer) begin(key string, notification int64, provider string, s *send) (receipt string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	a := p.accounts[key]
	if a == nil {
		a = &account{key: key, notification: notification, provider: provider}
		p.accounts[key] = a
		p.order = append(p.order, a)
	}
	s.answer = fateOf(p.seed, notification).at(p.met[notification])
	p.met[notification]++
	switch {
	case a.receipt != "":
		s.answer = again
	case s.answer == accept, s.answer == lose:
		a.receipt = fmt.Sprintf("%s-%d", provider, notification)
		a.accepted++
	}
	a.sends = append(a.sends, s)
	p.underWay[s.worker]++
	return a.receipt
}

func (p *providerServer) end(s *send, request *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	s.ended = time.Now()
	s.unanswered = request.Context().Err() != nil
	p.underWay[s.worker]--
}

// inHand is how many sends of a process are under way.
func (p *providerServer) inHand(process int) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.underWay[process]
}

// log returns what happened so far, by key in the order of the first send. It is a copy.
func (p *providerServer) log() []account {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	all := make([]account, len(p.order))
	for i, a := range p.order {
		all[i] = *a
		all[i].sends = make([]*send, len(a.sends))
		for j, s := range a.sends {
			clone := *s
			all[i].sends[j] = &clone
		}
	}
	return all
}
