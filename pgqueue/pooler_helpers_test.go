package pgqueue_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pooler stands between clients and a server as one in transaction mode does: each transaction, and each statement outside
// of one, goes to the next of its sessions in turn, and no session state outlives it.
type pooler struct {
	listener net.Listener
	sessions chan *pgconn.HijackedConn // the free ones; first in, first out

	serving sync.WaitGroup
	mutex   sync.Mutex
	clients map[net.Conn]bool
	startup map[string]bool // the parameters that any client sent
}

// throughPooler is a pool on the same database behind a pooler with two sessions.
func throughPooler(t testing.TB, pool *pgxpool.Pool, change func(*pgxpool.Config)) (*pooler, *pgxpool.Pool) {
	t.Helper()
	p := &pooler{sessions: make(chan *pgconn.HijackedConn, 2), clients: map[net.Conn]bool{}, startup: map[string]bool{}}
	for range cap(p.sessions) {
		conn, err := pgx.ConnectConfig(testContext(t), directly(t, pool.Config().ConnConfig))
		if err != nil {
			t.Fatal(err)
		}
		session, err := conn.PgConn().Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Conn.Close() })
		p.sessions <- session
	}
	var err error
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.serving.Go(p.accept)
	t.Cleanup(p.close)
	address := p.listener.Addr().(*net.TCPAddr)
	return p, poolLike(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.Host, config.ConnConfig.Port = address.IP.String(), uint16(address.Port)
		config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil
		change(config)
	})
}

func (p *pooler) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mutex.Lock()
		p.clients[conn] = true
		p.mutex.Unlock()
		p.serving.Go(func() {
			p.serve(conn)
			p.mutex.Lock()
			defer p.mutex.Unlock()
			delete(p.clients, conn)
			_ = conn.Close()
		})
	}
}

func (p *pooler) close() {
	_ = p.listener.Close()
	p.mutex.Lock()
	for conn := range p.clients {
		_ = conn.Close()
	}
	p.mutex.Unlock()
	p.serving.Wait()
}

// sent are the startup parameters that clients sent.
func (p *pooler) sent() map[string]bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return maps.Clone(p.startup)
}

// serve is the life of one client. It ends with its connection.
func (p *pooler) serve(conn net.Conn) {
	client := pgproto3.NewBackend(conn, conn)
	if !p.greet(conn, client) {
		return
	}
	var session *pgconn.HijackedConn // while a transaction, or a statement outside of one, is under way
	defer func() {
		if session != nil {
			_ = relay(session, nil, &pgproto3.Query{String: "ROLLBACK"})
			p.free(session)
		}
	}()
	for {
		message, err := client.Receive()
		if err != nil {
			return
		}
		if _, ok := message.(*pgproto3.Terminate); ok {
			return
		}
		if session == nil {
			session = <-p.sessions
		}
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync, *pgproto3.CopyDone, *pgproto3.CopyFail: // the server answers
			if err := relay(session, client, message); err != nil {
				return
			}
			if session.TxStatus == 'I' {
				p.free(session)
				session = nil
			}
		default:
			session.Frontend.Send(message)
		}
	}
}

// greet answers the startup message as a server that trusts.
func (p *pooler) greet(conn net.Conn, client *pgproto3.Backend) bool {
	for {
		message, err := client.ReceiveStartupMessage()
		if err != nil {
			return false
		}
		start, ok := message.(*pgproto3.StartupMessage)
		if !ok { // for TLS, or to cancel
			if _, err := conn.Write([]byte("N")); err != nil {
				return false
			}
			continue
		}
		p.mutex.Lock()
		for name := range start.Parameters {
			p.startup[name] = true
		}
		p.mutex.Unlock()
		client.Send(&pgproto3.AuthenticationOk{})
		for name, value := range map[string]string{"client_encoding": "UTF8", "standard_conforming_strings": "on"} {
			client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
		}
		client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		return client.Flush() == nil
	}
}

// free takes all state from a session and puts it to the end of the line.
func (p *pooler) free(session *pgconn.HijackedConn) {
	if relay(session, nil, &pgproto3.Query{String: "DISCARD ALL"}) == nil {
		p.sessions <- session
	}
}

// relay sends a message and passes on what comes back, until the server waits for the client. It notes the state of the
// transaction; during a COPY it says that there is one.
func relay(session *pgconn.HijackedConn, client *pgproto3.Backend, message pgproto3.FrontendMessage) error {
	session.Frontend.Send(message)
	if err := session.Frontend.Flush(); err != nil {
		return err
	}
	for {
		answer, err := session.Frontend.Receive()
		if err != nil {
			return err
		}
		if client != nil {
			client.Send(answer)
		}
		done := false
		switch answer := answer.(type) {
		case *pgproto3.ReadyForQuery:
			session.TxStatus, done = answer.TxStatus, true
		case *pgproto3.CopyInResponse:
			session.TxStatus, done = 'T', true
		}
		if done {
			if client != nil {
				return client.Flush()
			}
			return nil
		}
	}
}

// refusals are the SQLSTATEs of the errors that a pool's statements came back with.
type refusals struct {
	mutex sync.Mutex
	codes map[string]int
}

func (r *refusals) note(err error) {
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.codes == nil {
		r.codes = map[string]int{}
	}
	r.codes[fromServer.Code]++
}

// seen returns how often each code came.
func (r *refusals) seen() map[string]int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return maps.Clone(r.codes)
}

func (r *refusals) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (r *refusals) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	r.note(data.Err)
}
func (r *refusals) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (r *refusals) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	r.note(data.Err)
}
func (r *refusals) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	r.note(data.Err)
}
