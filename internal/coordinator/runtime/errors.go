package runtime

import "github.com/tidemark-io/tidemark/internal/kerrors"

// clientError turns an error of the log into what a coordinator's client
// understands (CoordinatorOperationExceptionHelper).
func clientError(err error) error {
	switch kerrors.CodeOf(err) {
	case kerrors.UnknownTopicOrPartition, kerrors.NotEnoughReplicas, kerrors.NotEnoughReplicasAfterAppend, kerrors.RequestTimedOut:
		return kerrors.Wrap(kerrors.CoordinatorNotAvailable, err, "the coordinator's log cannot commit now")
	case kerrors.NotLeaderOrFollower, kerrors.KafkaStorageError:
		return kerrors.Wrap(kerrors.NotCoordinator, err, "this broker cannot write the coordinator's log")
	case kerrors.MessageTooLarge, kerrors.RecordListTooLarge, kerrors.InvalidFetchSize:
		return kerrors.Wrap(kerrors.UnknownServerError, err, "the request's records do not fit one batch")
	}
	return err
}
