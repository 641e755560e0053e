package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/outbox"
	"github.com/pgqueue/pgqueue/runner"
)

// Headers of a send. The first is the one that counts: the same for every delivery of a row, so that the provider can tell a
// message that it has already. The others are for the proof.
const (
	headerKey     = "Idempotency-Key"
	headerAttempt = "X-Attempt"
	headerWorker  = "X-Worker"
)

// sender is the handler.
type sender struct {
	url    string
	client *http.Client // with a timeout
}

func newSender(url string, timeout time.Duration, connections int) *sender {
	return &sender{url: url, client: &http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: connections},
	}}
}

// Handle sends a message to its provider. What the answer means for the row is all that an application has to decide:
// delivered, failed, tried again with backoff, or tried later at no cost.
func (s *sender) Handle(ctx context.Context, task *runner.Task[Message]) (Receipt, error) {
	message := task.Payload
	form := url.Values{"notification": {strconv.FormatInt(message.Notification, 10)}, "to": {message.Recipient}, "subject": {message.Subject}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/"+message.Provider, strings.NewReader(form.Encode()))
	if err != nil {
		return "", runner.Permanent(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set(headerKey, outbox.IdempotencyKey(task.Token))
	request.Header.Set(headerAttempt, strconv.Itoa(task.Attempt))
	request.Header.Set(headerWorker, strconv.Itoa(os.Getpid()))
	response, err := s.client.Do(request)
	if err != nil {
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return "", runner.Coded("provider_timeout", err)
		}
		return "", runner.Coded("provider_unreachable", err)
	}
	defer response.Body.Close()
	defer func() { _, _ = io.Copy(io.Discard, response.Body) }() // so that the connection can be used again

	switch {
	case response.StatusCode == http.StatusOK:
		var answer struct{ Receipt Receipt }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Receipt == "" {
			return "", runner.Coded("provider_answer", fmt.Errorf("no receipt in the answer: %w", err))
		}
		return answer.Receipt, nil
	case response.StatusCode == http.StatusTooManyRequests:
		return "", runner.SnoozeFor(retryAfter(response)) // it is not the message's fault, and spends no attempt
	case response.StatusCode >= 400 && response.StatusCode < 500:
		return "", runner.Permanent(runner.Coded("refused", runner.Safef("the provider answered %d", response.StatusCode)))
	}
	return "", runner.Coded("provider_down", runner.Safef("the provider answered %d", response.StatusCode))
}

// retryAfter is when the provider wants to be asked again.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		seconds = 1
	}
	return time.Duration(seconds) * time.Second
}
