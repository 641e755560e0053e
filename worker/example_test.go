package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgqueue/pgqueue/worker"
)

// Thumbnail is a task: what Process needs to know of a row.
type Thumbnail struct{ Image string }

// Thumbnails is the handler. A real one claims with a statement such as
//
//	UPDATE images SET state = 'making', claimed_at = now() WHERE id = (
//	    SELECT id FROM images WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
//	RETURNING id, …
//
// and returns worker.ErrNoTask when it updates no row.
type Thumbnails struct {
	images []string
	done   func()
}

func (t *Thumbnails) Claim(context.Context) (Thumbnail, error) {
	if len(t.images) == 0 {
		return Thumbnail{}, worker.ErrNoTask
	}
	image := t.images[0]
	t.images = t.images[1:]
	return Thumbnail{image}, nil
}

func (t *Thumbnails) Process(_ context.Context, task Thumbnail) error {
	fmt.Println("made a thumbnail of", task.Image)
	if task.Image == "b.png" {
		t.done()
	}
	return nil
}

func Example() {
	ctx, stop := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	defer stop()
	w := worker.New("thumbnails", &Thumbnails{[]string{"a.png", "b.png"}, stop}, slog.Default(),
		worker.WithMaxConcurrency(1),
		worker.WithRegisterer(prometheus.NewRegistry())) // the default is prometheus.DefaultRegisterer
	if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
		fmt.Println(err)
	}
	// Output:
	// made a thumbnail of a.png
	// made a thumbnail of b.png
}

func ExampleNewPeriodic() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	sweep := worker.PeriodicFunc(func(context.Context) error {
		fmt.Println("swept")
		stop()
		return nil
	})
	w := worker.NewPeriodic("sweep", sweep, slog.Default(), worker.WithRegisterer(prometheus.NewRegistry()))
	_ = w.Run(ctx) // at once, and then every 10 s until ctx ends
	// Output: swept
}
