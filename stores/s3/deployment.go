package s3

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// The identity of the deployment is an object of its own, which is created once and never replaced.

const deploymentName = "identity.json"

type deployment struct {
	V        int    `json:"v"`
	Identity string `json:"identity"`
}

// Deployment implements stores.DeploymentKeeper.
func (l *Leases) Deployment(ctx context.Context) (string, error) {
	if err := l.begin(ctx); err != nil {
		return "", err
	}
	data, _, err := l.fetch(ctx, kindDeployment, deploymentName, maxRecordBytes)
	switch outcomeOf(err) {
	case done:
	case absent:
		return "", nil
	default:
		return "", l.failure(ctx, err, "", "the identity of the deployment cannot be read")
	}
	var d deployment
	if err := json.Unmarshal(data, &d); err != nil || d.V != version || stores.ValidateDeployment(d.Identity) != nil {
		return "", &messages.Error{Code: messages.CodeCorrupt, Object: kindDeployment + deploymentName, Message: "the object is not the identity of a deployment", Err: err}
	}
	return d.Identity, nil
}

// SetDeployment implements stores.DeploymentKeeper.
func (l *Leases) SetDeployment(ctx context.Context, identity string) (string, error) {
	if err := stores.ValidateDeployment(identity); err != nil {
		return "", err
	}
	if err := l.begin(ctx); err != nil {
		return "", err
	}
	data, err := json.Marshal(deployment{V: version, Identity: identity})
	if err != nil {
		return "", &messages.Error{Code: messages.CodeInternal, Message: "encode the identity of a deployment", Err: err}
	}
	in := l.document(kindDeployment, deploymentName, data, "")
	// Sent again where there was no answer: the first one that took effect counts, whosever it was.
	err = l.repeat(ctx, int64(len(data)), func(ctx context.Context) error {
		in.Body = bytes.NewReader(data)
		_, err := l.client.PutObject(ctx, in)
		return err
	})
	switch outcomeOf(err) {
	case done:
		return identity, nil
	case precondition:
		return l.Deployment(ctx)
	}
	return "", l.failure(ctx, err, "", "the identity of the deployment may or may not have been written")
}
