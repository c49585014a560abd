package s3

import (
	"context"
	"errors"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/leasehold/leasehold/messages"
)

// outcome is what is known of a request after its answer, or after it had none.
type outcome int

const (
	done         outcome = iota // it took effect
	absent                      // there is no such object
	noUpload                    // there is no such multipart upload (any more)
	precondition                // its condition does not hold; it had no effect
	conflict                    // it met another at the same instant and had no effect: again
	refused                     // the server will never take it
	unclear                     // no answer, or an answer that does not say: it may take effect at any time
)

// outcomeOf reads the answer to a request. Everything that is not known to have had no effect is unclear.
func outcomeOf(err error) outcome {
	if err == nil {
		return done
	}
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) {
		return unclear
	}
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	switch status := answer.HTTPStatusCode(); {
	case status == http.StatusPreconditionFailed:
		return precondition
	case status == http.StatusConflict && (code == "ConditionalRequestConflict" || code == "OperationAborted"):
		return conflict
	case status == http.StatusNotFound && code == "NoSuchUpload":
		return noUpload
	case status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound"):
		return absent
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, code == "RequestTimeout", code == "SlowDown":
		return unclear
	case status >= 400 && status < 500:
		return refused
	}
	return unclear
}

// failure types the error of a request. All are CodeUnavailable: for who uses a store, a server that
// refuses the credentials is one that does not answer. The Cause says why.
func (r requester) failure(ctx context.Context, err error, object, what string) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	if r.ctx.Err() != nil {
		return &messages.Error{Code: messages.CodeClosed, Message: "the bucket is closed"}
	}
	if ctx.Err() != nil {
		return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Object: object, Message: what + ": no answer in time", Err: context.Cause(ctx)}
	}
	e := &messages.Error{Code: messages.CodeUnavailable, Object: object, Message: what, Err: err}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		switch answer.HTTPStatusCode() {
		case http.StatusUnauthorized, http.StatusForbidden:
			e.Cause = messages.CodeUnauthorized
		case http.StatusNotFound:
			e.Cause = messages.CodeNotFound
		}
	}
	return e
}
