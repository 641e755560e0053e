package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// Config sets up a console. Pool is required, and so is Authenticator or ReadOnlyForAll.
type Config struct {
	// Pool is what the console reads and acts through. Its role needs what a viewer has, and for actions what an operator has;
	// see docs/roles.md. The console does not close it.
	Pool *pgxpool.Pool
	// Schema is the schema with pgqueue's tables. The default, and the empty string, is [migrations.DefaultSchema].
	Schema string
	// Prefix is the path under which the console is mounted, such as "/admin/jobs". Requests arrive with it. Empty: the root.
	Prefix string
	// Authenticator says who asks. Nil is refused, unless ReadOnlyForAll is set.
	Authenticator Authenticator
	// ReadOnlyForAll lets everybody who reaches the console read, jobs' payloads too; nobody can act. It excludes Authenticator.
	ReadOnlyForAll bool
	// AllowedHosts are the names, without a port, by which browsers may address the console; others are refused, which stops DNS
	// rebinding. Empty: localhost and the addresses of the loopback interface.
	AllowedHosts []string
	// Redact changes what is shown of payloads, results, metadata and error messages. Nil: they are shown as they are.
	Redact RedactFunc
	// Codecs are those of [pgqueue.WithCodec], so that what is stored encoded can be shown.
	Codecs []pgqueue.Codec
	// Citus is for tables that Citus has distributed; see [pgqueue.WithCitus].
	Citus bool
	// Logger gets a line for each action and each error. Nil: slog.Default().
	Logger *slog.Logger
}

// Console is the handler. It is safe for concurrent use. Close it when the server has stopped.
type Console struct {
	config    Config
	logger    *slog.Logger
	inspector *pgqueue.Inspector
	editor    *schedule.Editor
	client    *pgqueue.Client
	pages     *pages
	handler   http.Handler
}

// New makes a console. It sends no SQL. What is wrong with config is an error that names the field.
func New(config Config) (*Console, error) {
	if config.Pool == nil {
		return nil, errors.New("console: Config.Pool is nil")
	}
	if config.Authenticator == nil && !config.ReadOnlyForAll {
		return nil, errors.New("console: Config.Authenticator is nil: say who may see jobs and act on them, or set ReadOnlyForAll")
	}
	if config.Authenticator != nil && config.ReadOnlyForAll {
		return nil, errors.New("console: Config.ReadOnlyForAll excludes Config.Authenticator")
	}
	if config.Prefix != "" && (!strings.HasPrefix(config.Prefix, "/") || strings.HasSuffix(config.Prefix, "/")) {
		return nil, fmt.Errorf("console: Config.Prefix %q must begin with a slash and not end with one", config.Prefix)
	}
	if config.Schema == "" {
		config.Schema = migrations.DefaultSchema
	}
	c := &Console{config: config, logger: config.Logger}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	var err error
	if c.inspector, err = pgqueue.NewInspector(config.Pool, pgqueue.InspectorConfig{
		Schema: config.Schema, Logger: c.logger, Codecs: config.Codecs, Citus: config.Citus,
	}); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.client, err = pgqueue.NewClient(config.Pool, pgqueue.WithSchema(config.Schema)); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.editor, err = schedule.NewEditor(c.client); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.pages, err = loadPages(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.handler = c.mount()
	return c, nil
}

// ServeHTTP serves the console.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }
