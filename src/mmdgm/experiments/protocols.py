"""What the figures on the page of results mean, and where the paper's mean something else."""

ABOUT = {
    "mnist": "Error and bound are on the 10,000 test images. Every bound is for grey pixels (x/255) with L = 1 "
    "sample and the KL in closed form, or estimated with that sample where the prior is learned (`cmmva-mnist-best`); "
    "the log-likelihood is importance-weighted with K samples. Other protocols give "
    "figures that differ by up to 22 nats and must not be compared with these. The paper trains its networks without "
    "convolution on 50,000 images, those with convolution on 60,000; so does `split=whole`.",
    "svhn": "Error is on the 26,032 test images of SVHN, after training on the 73,257 official training images or on "
    "those less 6,000 for validation; the paper trains on 598,388. Bounds are of contrast-normalised images and can be "
    "compared with each other alone. The files were rebuilt from the full-number photographs: their md5 is not that of "
    "the official ones, and the data hash below is of what they hold.",
}

PROTOCOLS = """## Where protocols differ

What the paper says, what its authors' released code does where that is another thing, and what stands in our
columns.

- **The bound** is not defined in the paper's tables. The code trains on pixels that are binarised anew for every
  mini-batch and measures on grey ones, with one sample of z; the convolutional code trains on
  grey ones. Every bound here is of grey pixels with one sample, however the recipe was trained. The same model's bound
  is 22 nats higher on thresholded pixels, and no model can pass -45.53 on grey ones.
- **C and the margin.** The paper names C = 15 and C = 1000. The code has a margin of 3 beside the first and of 1
  beside the second; ours has these in the recipes with the paper's networks.
- **Row C = 0 of table 2** is another model: a CVA, and a linear classifier fitted to its features afterwards. Our
  two rows for it are the CVA, which has the bound, and Pegasos on its features, which has the error.
- **Selection.** The code keeps the epoch with the lowest validation error for the fully connected models, and none
  for the convolutional ones. Ours keep the last weights, averaged.
- **Sparsity.** The code adds an undocumented penalty on mean activations to MMVA alone. Ours has none.
- **Dropout.** The paper has three layers of it in CMMVA; in the code they stand before z, too, and CVA has two.
  Ours drop units on the classifier's way alone; `cmmva-mnist-paper` and `cva-mnist-paper` do as the code did.
- **SVHN.** Both models of the paper start from a CNN that was trained on labels, so its CVA + Pegasos has seen
  them; the release says that five runs were made and one chosen. Ours start from nothing, but for
  `cmmva-svhn-from-cnn`, and every seed is printed.
- **Filling in.** The paper scores the last image of one chain. Ours is the mean over the steps; the last image's
  figure stands beside it below ("of the last step").
- **The CNN with holes** of the paper sees noise in the hole. Ours sees zeros; the training mean stands beside it
  in the JSON, and `cnn-mnist-holes` sees where the hole is."""
