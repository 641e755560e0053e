package memqueue_test

import (
	"context"
	"fmt"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
)

func Example() {
	queue := memqueue.New[string, int](memqueue.Config{})
	queue.Put(memqueue.Input[string]{Name: "greeting", Payload: "hello"})

	length := runner.HandlerFunc[string, int](func(_ context.Context, task *runner.Task[string]) (int, error) {
		return len(task.Payload), nil
	})
	r, err := runner.New(queue, length, runner.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := r.Drain(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	item, _ := queue.Get("greeting")
	fmt.Println(item.State, *item.Result)
	// Output: succeeded 5
}
