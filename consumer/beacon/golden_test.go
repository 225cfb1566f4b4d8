package beacon

// packedGolden is packedSet above effect 100, once as packed runs and once as
// packed bits.
var packedGolden = []string{"z:KLUv_WCwA10AABgDAwUBVAMCLqoU", "y:KLUv_WBYAcMSADg"}
