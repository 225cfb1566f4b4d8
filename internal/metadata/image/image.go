package image

// Image is the metadata at one offset. Make one with Empty and Delta.Apply.
type Image struct {
	// Offset is the last offset of the metadata log that the image contains, -1
	// for the empty image. Epoch is the leader epoch of that offset.
	Offset int64
	Epoch  int32

	Features     Features
	Cluster      Cluster
	Topics       Topics
	Configs      Configs
	ClientQuotas ClientQuotas
	ProducerIDs  ProducerIDs
	ACLs         ACLs
	Scram        Scram
	Tokens       Tokens
}

// Empty returns the image before any record.
func Empty() *Image {
	return &Image{
		Offset:       -1,
		Epoch:        -1,
		Features:     Features{},
		Cluster:      Cluster{brokers: newTree[int32, *Broker](), controllers: newTree[int32, *Controller]()},
		Topics:       Topics{byName: newTree[string, *Topic](), byID: newTree[string, *Topic]()},
		Configs:      Configs{byResource: newTree[string, resourceConfig]()},
		ClientQuotas: ClientQuotas{byEntity: newTree[string, *ClientQuota]()},
		ProducerIDs:  ProducerIDs{Next: -1},
		ACLs:         ACLs{byID: newTree[string, *ACL]()},
		Scram:        Scram{byUser: newTree[string, *ScramCredential]()},
		Tokens:       Tokens{byID: newTree[string, *Token]()},
	}
}

// fork returns an image whose trees may be written without changing im.
func (im *Image) fork() *Image {
	next := *im
	next.Cluster = Cluster{brokers: im.Cluster.brokers.fork(), controllers: im.Cluster.controllers.fork()}
	next.Topics.byName = im.Topics.byName.fork()
	next.Topics.byID = im.Topics.byID.fork()
	next.Configs = Configs{byResource: im.Configs.byResource.fork()}
	next.ClientQuotas = ClientQuotas{byEntity: im.ClientQuotas.byEntity.fork()}
	next.ACLs = ACLs{byID: im.ACLs.byID.fork()}
	next.Scram = Scram{byUser: im.Scram.byUser.fork()}
	next.Tokens = Tokens{byID: im.Tokens.byID.fork()}
	return &next
}
