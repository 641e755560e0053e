package listener

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Defaults of [Config].
const (
	DefaultEchoInterval   = 10 * time.Second
	DefaultEchoTimeout    = 5 * time.Second
	DefaultReconnectMin   = 100 * time.Millisecond
	DefaultReconnectMax   = 10 * time.Second
	DefaultConnectTimeout = 10 * time.Second
)

// MaxChannel is the longest name of a channel in bytes: Postgres refuses longer ones in NOTIFY and cuts them in LISTEN.
const MaxChannel = 63

// MaxHint is the longest payload in bytes that is taken for the name of a queue, and for a control message.
const MaxHint = 128

// Config says where a [Listener] listens and whom it tells. Connect, Channel and OnHint are required; the zero value of
// any other field means its default.
type Config struct {
	// Connect opens a connection for the listener alone, which closes it. It must return when ctx ends. It must not take
	// the connection from a pool (use pgx.Connect or pgx.ConnectConfig), must not set OnNotification on it, and must
	// reach Postgres without a pooler in transaction mode. Required.
	Connect func(ctx context.Context) (*pgx.Conn, error)

	// Channel is the channel of the hints, exactly as given to pg_notify: it is quoted, so case and punctuation count.
	// At most 63 bytes. Required.
	Channel string

	// Send sends a NOTIFY over any other connection, autocommitted: SELECT pg_notify($1, $2). It must return when ctx
	// ends. An error says nothing about the listening connection, and is shown apart, in [Status].SendError. Nil turns
	// the echo off: then a half-open connection is noticed only when the operating system notices it.
	Send func(ctx context.Context, channel, payload string) error

	// OnHint is called with the name of a queue that has new work: any payload of 1 to 128 bytes of valid UTF-8,
	// whether or not such a queue exists. Calls come one at a time from a single goroutine; hints for a queue that
	// arrive before its call are one call. It should not block, since it delays the hints of other queues, but the
	// reader goes on when it does. A panic is logged and contained. Required.
	OnHint func(queue string)

	// OnConnect is called when every queue should be looked at: after each LISTEN that is in force, because
	// notifications sent before are lost, and when more different queues were named, or more different control messages
	// have come, than are kept waiting (1,024). It is called from the goroutine of OnHint. Optional.
	OnConnect func()

	// Control is a second channel, for messages about single tasks, read over the same connection. Named like Channel, and
	// not the same. Empty: there is none.
	Control string

	// OnControl is called with each message of Control: any payload of 1 to 128 bytes of valid UTF-8, whoever sent it. Calls
	// come one at a time from a goroutine of their own, so that neither channel delays the other; equal messages that arrive
	// before their call are one call. It should not block, but the reader goes on when it does. A panic is logged and
	// contained. Messages may be lost, see OnConnect. Required with Control.
	OnControl func(message string)

	EchoInterval   time.Duration // longest time between two echoes; 10 s
	EchoTimeout    time.Duration // an echo later than this is deafness; also the limit of a Send; 5 s
	ReconnectMin   time.Duration // shortest wait before another attempt, doubled by each failure; 100 ms
	ReconnectMax   time.Duration // longest wait; 10 s
	ConnectTimeout time.Duration // limit of a Connect, and again of the LISTEN after it; 10 s

	// Logger gets one warning for each loss of the connection, and nothing at a normal stop. Nil means slog.Default().
	Logger *slog.Logger

	// Observer may implement any of the observer interfaces of this package; what it does not implement is not called.
	Observer any
}

// ConfigError says which field of a [Config] cannot be used, and why.
type ConfigError struct {
	Field   string
	Message string
}

// Error implements error.
func (e *ConfigError) Error() string { return fmt.Sprintf("listener: %s %s", e.Field, e.Message) }

// check validates config and returns it with the defaults put in.
func (config Config) check() (Config, error) {
	switch {
	case config.Connect == nil:
		return config, &ConfigError{"Connect", "is required"}
	case config.OnHint == nil:
		return config, &ConfigError{"OnHint", "is required"}
	case config.Channel == "":
		return config, &ConfigError{"Channel", "is required"}
	case config.Control == config.Channel:
		return config, &ConfigError{"Control", "is the same as Channel"}
	case config.Control != "" && config.OnControl == nil:
		return config, &ConfigError{"OnControl", "is required with Control"}
	case config.Control == "" && config.OnControl != nil:
		return config, &ConfigError{"Control", "is required with OnControl"}
	}
	for _, channel := range []struct{ field, name string }{{"Channel", config.Channel}, {"Control", config.Control}} {
		switch {
		case len(channel.name) > MaxChannel:
			return config, &ConfigError{channel.field, fmt.Sprintf("has %d bytes, more than %d", len(channel.name), MaxChannel)}
		case !utf8.ValidString(channel.name):
			return config, &ConfigError{channel.field, "is not valid UTF-8"}
		case strings.ContainsRune(channel.name, 0):
			return config, &ConfigError{channel.field, "contains a NUL"}
		}
	}
	for _, duration := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"EchoInterval", &config.EchoInterval, DefaultEchoInterval},
		{"EchoTimeout", &config.EchoTimeout, DefaultEchoTimeout},
		{"ReconnectMin", &config.ReconnectMin, DefaultReconnectMin},
		{"ReconnectMax", &config.ReconnectMax, max(DefaultReconnectMax, config.ReconnectMin)},
		{"ConnectTimeout", &config.ConnectTimeout, DefaultConnectTimeout},
	} {
		switch {
		case *duration.value < 0:
			return config, &ConfigError{duration.field, fmt.Sprintf("is negative (%s)", *duration.value)}
		case *duration.value == 0:
			*duration.value = duration.fallback
		}
	}
	if config.ReconnectMax < config.ReconnectMin {
		return config, &ConfigError{"ReconnectMax", fmt.Sprintf("%s is less than ReconnectMin %s", config.ReconnectMax, config.ReconnectMin)}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return config, nil
}
