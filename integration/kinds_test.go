package integration

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The jobs of the worker program.
type (
	// sleepJob takes its time, unless its context ends.
	sleepJob struct {
		For time.Duration
	}
	// holdJob goes on until the process is told to; a deaf one does not look at its context, the other returns its
	// context's error.
	holdJob struct {
		Deaf bool
	}
	// effectJob adds a row to the table effects in the transaction of its completion. With Hold it waits in between, as
	// a deaf holdJob does.
	effectJob struct {
		Hold bool
	}
	// killJob ends its process with SIGKILL.
	killJob struct{}
	// exitJob calls os.Exit when the process is told to go on.
	exitJob struct {
		Code int
	}
	// bombJob ends its process at once, by os.Exit(3) or log.Fatal, on its first attempt. Later ones succeed.
	bombJob struct {
		Fatal bool
	}
)

func (sleepJob) Kind() string  { return "sleep" }
func (holdJob) Kind() string   { return "hold" }
func (effectJob) Kind() string { return "effect" }
func (killJob) Kind() string   { return "kill-self" }
func (exitJob) Kind() string   { return "exit" }
func (bombJob) Kind() string   { return "bomb" }

// kinds are the handlers of the worker program.
type kinds struct {
	said *voice
	goOn <-chan struct{} // closed when the parent says so
}

func newKinds(said *voice, goOn <-chan struct{}) *kinds { return &kinds{said, goOn} }

// mux registers the kinds of these names.
func (k *kinds) mux(names []string) (*pgqueue.Mux, error) {
	mux := pgqueue.NewMux()
	mux.Use(k.report)
	for _, name := range names {
		switch name {
		case sleepJob{}.Kind():
			pgqueue.Handle(mux, k.sleep)
		case holdJob{}.Kind():
			pgqueue.Handle(mux, k.hold)
		case effectJob{}.Kind():
			pgqueue.HandleTx(mux, k.effect)
		case killJob{}.Kind():
			pgqueue.Handle(mux, k.kill)
		case exitJob{}.Kind():
			pgqueue.Handle(mux, k.exit)
		case bombJob{}.Kind():
			pgqueue.Handle(mux, k.bomb)
		default:
			return nil, fmt.Errorf("there is no kind %q", name)
		}
	}
	return mux, nil
}

// report says when a handler begins and when it returns.
func (k *kinds) report(next pgqueue.Handler) pgqueue.Handler {
	return pgqueue.HandlerFunc(func(ctx context.Context, job *pgqueue.AnyJob) error {
		k.said.say(about(eventStart, job.JobInfo))
		err := next.HandleJob(ctx, job)
		finish := about(eventFinish, job.JobInfo)
		finish.Err, finish.Cause = text(err), text(context.Cause(ctx))
		k.said.say(finish)
		return err
	})
}

func (k *kinds) sleep(ctx context.Context, job *pgqueue.Job[sleepJob]) error {
	timer := time.NewTimer(job.Args.For)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *kinds) hold(ctx context.Context, job *pgqueue.Job[holdJob]) error {
	if job.Args.Deaf {
		<-k.goOn
		return nil
	}
	select {
	case <-k.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *kinds) effect(ctx context.Context, tx pgx.Tx, job *pgqueue.Job[effectJob]) error {
	if _, err := tx.Exec(ctx, "INSERT INTO public.effects (job, attempt) VALUES ($1, $2)", job.ID, job.Attempt); err != nil {
		return err
	}
	k.said.say(about(eventHeld, job.JobInfo))
	if job.Args.Hold {
		<-k.goOn
	}
	return nil
}

func (k *kinds) kill(context.Context, *pgqueue.Job[killJob]) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Kill(); err != nil {
		return err
	}
	select {} // the signal is on its way
}

func (k *kinds) exit(_ context.Context, job *pgqueue.Job[exitJob]) error {
	<-k.goOn
	os.Exit(job.Args.Code)
	return nil
}

func (k *kinds) bomb(_ context.Context, job *pgqueue.Job[bombJob]) error {
	switch {
	case job.Attempt > 1:
		return nil
	case job.Args.Fatal:
		log.Fatal("this handler gives up") // exit code 1
	}
	os.Exit(3)
	return nil
}
