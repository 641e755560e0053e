package pgcontainer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"
)

// DefaultImage is the image that is run where none is named.
const DefaultImage = "postgres:18-alpine"

// readyTimeout bounds the first start of a container, its initdb included. Pulling the image is not part of it.
const readyTimeout = 2 * time.Minute

// Options says what to run. The zero value means [DefaultImage].
type Options struct {
	// Image is the image to run; it must behave like the official one of Postgres, 14 or newer.
	Image string
	// Settings are server settings, as in postgresql.conf. Without any the server trades durability for speed (fsync off), as
	// pgqueuetest's own does; a setting given here wins.
	Settings map[string]string
}

// Container is a running server. Its methods may be called from several goroutines.
type Container struct {
	container *postgres.PostgresContainer
	image     string
	url       string
	version   string
}

// Start runs a container and returns when the server takes connections. [Container.Terminate] ends it; where testcontainers'
// reaper can run (it does by default), so does the end of the process.
func Start(ctx context.Context, options Options) (*Container, error) {
	image := options.Image
	if image == "" {
		image = DefaultImage
	}
	command := []string{"postgres"}
	settings := map[string]string{"fsync": "off", "max_connections": "200"}
	for name, value := range options.Settings {
		settings[name] = value
	}
	for name, value := range settings {
		command = append(command, "-c", name+"="+value)
	}
	running, err := postgres.Run(ctx, image,
		postgres.WithDatabase("pgqueue"), postgres.WithUsername("pgqueue"), postgres.WithPassword("pgqueue"),
		testcontainers.WithCmd(command...),
		testcontainers.WithLogger(log.NewNoopLogger()),
		// Twice: the server of initdb's time says so too, and takes no connection from outside.
		testcontainers.WithWaitStrategyAndDeadline(readyTimeout,
			wait.ForAll(wait.ForLog("database system is ready to accept connections").WithOccurrence(2), wait.ForListeningPort("5432/tcp"))),
	)
	container := &Container{container: running, image: image}
	if err != nil {
		if running != nil {
			_ = container.Terminate(context.WithoutCancel(ctx))
		}
		return nil, fmt.Errorf("pgcontainer: run %s: %w", image, err)
	}
	if err := container.look(ctx); err != nil {
		_ = container.Terminate(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("pgcontainer: %s: %w", image, err)
	}
	return container, nil
}

// look asks the container where it is, and the server what it is.
func (c *Container) look(ctx context.Context) error {
	location, err := c.container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, location)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	c.url = location
	return conn.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&c.version)
}

// URL is the connection string of the database "pgqueue" as its owner, a superuser of the container.
func (c *Container) URL() string { return c.url }

// Image is what was run.
func (c *Container) Image() string { return c.image }

// ID is the container's id.
func (c *Container) ID() string { return c.container.GetContainerID() }

// ServerVersion is what the server says about itself, such as 18.4.
func (c *Container) ServerVersion() string { return c.version }

// Terminate ends the container and removes it with its data.
func (c *Container) Terminate(ctx context.Context) error {
	if err := testcontainers.TerminateContainer(c.container, testcontainers.StopContext(ctx)); err != nil {
		return fmt.Errorf("pgcontainer: terminate: %w", err)
	}
	return nil
}
