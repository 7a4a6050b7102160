"""ProxyNCA++: the probability of the own proxy, at a low temperature."""

from dmlrc.losses.proxy_nca import ProxyNCA


class ProxyNCAPP(ProxyNCA):
    """ProxyNCA with the positive proxy in the denominator and the squared distances divided by a temperature T.

    mean_i -log( e^(-|x_i - p_y|^2 / T) / sum over all classes c of e^(-|x_i - p_c|^2 / T) ),  softmax_scale = 1 / T

    Parameters
    ----------
    num_classes, embedding_dim : C and D; the labels are in [0, C)
    softmax_scale : 1 / T, above 0; 9, the paper's T = 1/9

    Notes
    -----
    The same function as `ProxyNCA`, and as normalised softmax with temperature T / 2: 1/18. What the paper adds beside
    it (global max pooling, layer normalisation, a high rate for the proxies, batches of 8 x 4) is no part of a loss.
    proxies: a standard normal divided by 8 at the start, as in the authors' code.

    References
    ----------
    Teh et al. 2020 (ProxyNCA++).
    """

    def __init__(self, num_classes: int, embedding_dim: int, softmax_scale: float = 9.0):
        super().__init__(num_classes, embedding_dim, softmax_scale)
        self.proxies.data /= 8
