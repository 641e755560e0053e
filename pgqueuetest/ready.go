package pgqueuetest

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// readyPatience is how long a server may be away that has answered before, or that says itself that it will soon: a
	// container's first start ends the server that set it up, and after a crash comes recovery.
	readyPatience = 30 * time.Second
	readyTick     = 100 * time.Millisecond
)

// whenReady runs f again and again while its error is one that later means, for at most readyPatience. It returns f's last error.
func whenReady(ctx context.Context, later func(error) bool, f func() error) error {
	patience, tick := time.NewTimer(readyPatience), time.NewTicker(readyTick)
	defer patience.Stop()
	defer tick.Stop()
	for {
		err := f()
		if err == nil || !later(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// startingUp tells whether the server says that it will take connections soon.
func startingUp(err error) bool {
	var fromServer *pgconn.PgError
	return errors.As(err, &fromServer) && fromServer.Code == "57P03" // cannot_connect_now
}

// away tells whether a server that has answered before is not there: it starts, ends, has crashed, or has hung up.
func away(err error) bool {
	var fromServer *pgconn.PgError
	if errors.As(err, &fromServer) {
		return fromServer.Code == "57P03" || fromServer.Code == "57P01" || fromServer.Code == "57P02" // admin_shutdown, crash_shutdown
	}
	var fromNet net.Error
	return errors.As(err, &fromNet) && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
