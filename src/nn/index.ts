/** The nn layer: small, explicit neural networks over flat memory. */

export * from './architectures.js';
export * from './clipping.js';
export * from './data/idx.js';
export * from './data/image-dataset.js';
export * from './data/mnist.js';
export * from './data/sampler.js';
export * from './initializers.js';
export { type BlasChoice, selectBlas } from './kernels.js';
export * from './layer.js';
export * from './layers/activation.js';
export * from './layers/batch-norm.js';
export * from './layers/conv2d.js';
export * from './layers/dropout.js';
export * from './layers/embedding.js';
export * from './layers/flatten.js';
export * from './layers/layer-norm.js';
export * from './layers/linear.js';
export * from './layers/pooling.js';
export * from './learning-rate.js';
export * from './model.js';
export * from './optimizers/adam.js';
export * from './optimizers/lamb.js';
export * from './optimizers/optimizer.js';
export * from './optimizers/sgd.js';
export * from './random.js';
export * from './softmax-cross-entropy.js';
export * from './train-loop.js';
