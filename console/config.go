package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

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
	// TrustedOrigins are origins, such as "https://ops.example.com", whose forms are taken besides those of the console's own. It is for
	// a proxy that changes the Host header, and for no other site's pages.
	TrustedOrigins []string
	// Redact changes what is shown of payloads, results, metadata and error messages. Nil: they are shown as they are.
	Redact RedactFunc
	// Codecs are those of [pgqueue.WithCodec], so that what is stored encoded can be shown.
	Codecs []pgqueue.Codec
	// Timeout is how long an answer may take, its queries with it. Default 30 s. Downloads have more.
	Timeout time.Duration
	// Citus is for tables that Citus has distributed; see [pgqueue.WithCitus].
	Citus bool
	// Logger gets a line for each action and each error. Nil: slog.Default().
	Logger *slog.Logger
}

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 30 * time.Second

// Console is the handler. It is safe for concurrent use. Close it when the server has stopped.
type Console struct {
	config    Config
	logger    *slog.Logger
	inspector *pgqueue.Inspector
	editor    *schedule.Editor
	client    *pgqueue.Client
	hosts     hosts
	origins   *http.CrossOriginProtection
	assets    *assets
	pages     *pages
	menu      []menuEntry
	mux       *http.ServeMux
	// What screens keep from one request to the next: the bulk actions that run in the background, and the doctor's latest report.
	operations   *operations
	examinations examinations
	counts       queueCounts // of the list of queues
	overviews    overviews
	sampling     chan struct{} // who reads samples, see samples.go
	turns        turns
	// closed ends with Close, and what requests ask the database with it.
	closed context.Context
	stop   context.CancelCauseFunc
}

// New makes a console. It sends no SQL. What is wrong with config is an error that names the field.
func New(config Config) (*Console, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Console{config: config, logger: config.Logger, origins: http.NewCrossOriginProtection(), operations: newOperations(config.Logger), sampling: make(chan struct{}, samplesAtOnce), turns: newTurns(config.Pool.Config().MaxConns)}
	if c.hosts, err = newHosts(config.AllowedHosts); err != nil {
		return nil, err
	}
	for i, origin := range config.TrustedOrigins {
		if err := c.origins.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("console: Config.TrustedOrigins[%d]: %w", i, err)
		}
	}
	if c.inspector, err = pgqueue.NewInspector(config.Pool, pgqueue.InspectorConfig{
		Schema: config.Schema, Logger: c.logger, Codecs: config.Codecs, Citus: config.Citus, Audit: pgqueue.RecordAudit(config.Schema, "console"),
	}); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.client, err = pgqueue.NewClient(config.Pool, clientOptions(config)...); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.editor, err = schedule.NewEditor(c.client); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.assets, err = loadAssets(config.Prefix); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.pages, err = loadPages(templateFuncs(c.assets)); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.mux = c.mount()
	c.closed, c.stop = context.WithCancelCause(context.Background())
	return c, nil
}

// clientOptions are those of the client behind the schedules' editor.
func clientOptions(config Config) []pgqueue.ClientOption {
	options := []pgqueue.ClientOption{pgqueue.WithSchema(config.Schema), pgqueue.WithLogger(config.Logger)}
	if len(config.Codecs) > 0 {
		options = append(options, pgqueue.WithCodec(config.Codecs...))
	}
	return options
}

// withDefaults checks a config and fills in what was left out.
func (config Config) withDefaults() (Config, error) {
	if config.Pool == nil {
		return config, errors.New("console: Config.Pool is nil")
	}
	if config.Authenticator == nil && !config.ReadOnlyForAll {
		return config, errors.New("console: Config.Authenticator is nil: say who may see jobs and act on them, or set ReadOnlyForAll")
	}
	if config.Authenticator != nil && config.ReadOnlyForAll {
		return config, errors.New("console: Config.ReadOnlyForAll excludes Config.Authenticator")
	}
	if err := checkPrefix(config.Prefix); err != nil {
		return config, err
	}
	if config.Timeout < 0 {
		return config, fmt.Errorf("console: Config.Timeout must not be negative, is %s", config.Timeout)
	}
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	if config.Schema == "" {
		config.Schema = migrations.DefaultSchema
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return config, nil
}

// checkPrefix takes only what means the same in an address, in a pattern of a mux, and to every proxy.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if !strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("console: Config.Prefix %q must begin with a slash and not end with one", prefix)
	}
	if path.Clean(prefix) != prefix {
		return fmt.Errorf("console: Config.Prefix %q must be written plainly, without // and parts of dots alone: %q", prefix, path.Clean(prefix))
	}
	for _, char := range prefix {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.~", char) {
			return fmt.Errorf("console: Config.Prefix %q may hold letters of ASCII, digits, and -_.~ alone, not %q", prefix, char)
		}
	}
	return nil
}
