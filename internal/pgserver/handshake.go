package pgserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// handshake connects as postgres and waits until the server says that it is ready for a query. This is the evidence that
// a client can work; an open port alone is not, the server accepts connections while it still recovers.
func handshake(ctx context.Context, port int) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write(startupMessage()); err != nil {
		return err
	}
	reader := bufio.NewReader(conn)
	for {
		kind, body, err := readMessage(reader)
		if err != nil {
			return err
		}
		switch kind {
		case 'E':
			return fmt.Errorf("the server answered: %s", bytes.ReplaceAll(body, []byte{0}, []byte{' '}))
		case 'R':
			// Asking for a password, as a cluster of the user's may, is an answer of a server that is ready.
			if len(body) >= 4 && binary.BigEndian.Uint32(body) != 0 {
				return nil
			}
		case 'Z':
			_, err := conn.Write([]byte{'X', 0, 0, 0, 4}) // Terminate
			return err
		}
	}
}

// startupMessage is the first message of protocol 3.0.
func startupMessage() []byte {
	var body bytes.Buffer
	body.Write([]byte{0, 3, 0, 0})
	body.WriteString("user\x00postgres\x00database\x00postgres\x00application_name\x00pgserver\x00\x00")
	return append(binary.BigEndian.AppendUint32(nil, uint32(body.Len()+4)), body.Bytes()...)
}

// readMessage reads one message: its type, the length of itself and the body, and the body.
func readMessage(reader io.Reader) (kind byte, body []byte, err error) {
	var header [5]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length < 4 || length > 1<<16 {
		return 0, nil, fmt.Errorf("not a PostgreSQL server: message of %d bytes", length)
	}
	body = make([]byte, length-4)
	_, err = io.ReadFull(reader, body)
	return header[0], body, err
}
