package sqllease

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// maxBatch is how many renewals travel in one round trip. A batch is one transaction, so it holds its rows
// until the last of them is written; 500 take some tens of ms.
const maxBatch = 500

// RenewMany implements stores.BatchRenewer: one round trip, and one transaction, for each 500 renewals. If
// a later part fails, its error stands for all of them, although an earlier part has taken effect.
func (s *Store) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	results := make([]stores.RenewalResult, len(renewals))
	var valid []int // the indexes of those that are worth a journey
	for i, r := range renewals {
		if results[i].Err = r.Validate(); results[i].Err == nil {
			valid = append(valid, i)
		}
	}
	for len(valid) > 0 {
		part := valid[:min(maxBatch, len(valid))]
		valid = valid[len(part):]
		if err := s.renewPart(ctx, renewals, part, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) renewPart(ctx context.Context, renewals []stores.Renewal, part []int, results []stores.RenewalResult) error {
	asked := make([][4]any, len(part))
	for n, i := range part {
		r := renewals[i]
		asked[n] = [4]any{r.Key.String(), r.Owner, storedEpoch(r.Epoch), r.TTL.Milliseconds()}
	}
	request, err := json.Marshal(asked)
	if err != nil {
		return &messages.Error{Code: messages.CodeInternal, Message: "encode renewals", Err: err}
	}
	batches, err := query(ctx, s, s.dialect.RenewMany, []any{string(request)}, func(row scanner) ([]placed, error) {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return nil, err
		}
		var answers []placed
		err := json.Unmarshal(text, &answers)
		return answers, err
	})
	if err != nil {
		return err
	}
	answered := make([]bool, len(part))
	for _, answers := range batches {
		for _, a := range answers {
			if a.place < 1 || a.place > len(part) || answered[a.place-1] {
				return badBatch(part)
			}
			i := part[a.place-1]
			results[i].Lease, results[i].Err = a.settle(renewals[i].Key)
			answered[a.place-1] = true
		}
	}
	if slices.Contains(answered, false) {
		return badBatch(part)
	}
	return nil
}

func badBatch(part []int) error {
	return &messages.Error{Code: messages.CodeUnavailable, Message: fmt.Sprintf("the lease store did not answer %d renewals one by one", len(part))}
}

// placed is an answer, and which renewal it is to, counted from 1.
type placed struct {
	place int
	answer
}

// UnmarshalJSON reads the array [place, answer].
func (p *placed) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.place, &p.answer})
}
